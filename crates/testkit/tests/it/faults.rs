//! Faults fall where they were asked for.

use std::sync::Arc;

use outlast_store::{Append, AppendError, Log as _};
use outlast_testkit::{
    build::{Subject, World},
    faulty::{Fault, Faulty},
    memory::Memory,
    random::Seeded,
    time::ManualClock,
};

async fn world() -> (World, Arc<Faulty<Memory>>) {
    let (clock, entropy) = (Arc::new(ManualClock::default()), Arc::new(Seeded::new(1)));
    let store = Arc::new(Faulty::new(Memory::new(clock.clone(), entropy.clone())));
    (
        World::new(Subject {
            store: store.clone(),
            clock,
            entropy,
        })
        .await,
        store,
    )
}

#[tokio::test]
async fn an_append_is_lost_before_or_after() {
    let (world, store) = world().await;
    let session = world.session().await;
    let send = || {
        store.append(
            session,
            Append {
                proposal: world.message("a"),
                receipt: None,
            },
        )
    };
    let tail = async || world.state(session).await.tail;

    store.fail_at(2, Fault::Before);
    send().await.unwrap();
    assert!(matches!(send().await, Err(AppendError::Unavailable(_))));
    assert_eq!(tail().await, 2, "nothing was appended");

    store.fail_at(1, Fault::After);
    assert!(matches!(send().await, Err(AppendError::Unavailable(_))));
    assert_eq!(tail().await, 3, "only the answer was lost");
    send().await.unwrap();
    assert_eq!((tail().await, store.appends()), (4, 5));
}

#[tokio::test]
async fn a_hook_sees_what_is_proposed() {
    let (world, store) = world().await;
    let (doomed, spared) = (world.session().await, world.session().await);
    store.hook(move |_, session, _| {
        if session == doomed {
            Fault::Before
        } else {
            Fault::None
        }
    });
    world.send(spared, "fine").await;
    world
        .propose(doomed, world.message("lost"))
        .await
        .unwrap_err();
}
