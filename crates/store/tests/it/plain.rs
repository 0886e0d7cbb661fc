//! Small things that only this store has.

use outlast_store::{GONE, Log as _};

use crate::kit::Kit;

/// Space that a session took is given back to the file system.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purging_shrinks_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path(), 1).await.unwrap();
    let world = kit.world().await;
    let mut new = world.create();
    new.inputs = (0..40)
        .map(|_| outlast_store::conformance::fixture::input(&"x".repeat(50_000)))
        .collect();
    new.inputs.push(outlast_session::Input {
        act: outlast_session::Act::Interrupt { thread: None },
        body: outlast_session::json(&serde_json::json!({})),
    });
    let session = new.id;
    world
        .propose(session, outlast_session::Proposal::Create(Box::new(new)))
        .await
        .unwrap();
    let pages = || {
        let database = rusqlite::Connection::open(dir.path().join("outlast.db")).unwrap();
        database
            .pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let full = pages();
    end(&world, session).await;
    let mut watch = kit.store.watch(session).await.unwrap();
    world
        .propose(session, outlast_session::Proposal::Delete(world.key))
        .await
        .unwrap();
    assert_eq!(*watch.borrow_and_update(), GONE);
    while kit.store.purge(1_000).await.unwrap() > 0 {}
    let left = pages();
    assert!(left < full / 2, "{left} of {full} pages are left");
}

/// Takes in whatever waits and ends the turn.
async fn end(
    world: &outlast_store::conformance::fixture::World,
    session: outlast_protocol::id::SessionId,
) {
    use outlast_session::{Failure, Fence, Proposal, Step, Then, json};
    let Ok(claimed) = world.propose(session, world.claim()).await else {
        return;
    };
    let epoch = claimed.state.thread(0).unwrap().epoch;
    let last = claimed.state.tail;
    let error = json(&serde_json::json!({ "error": { "type": "unknown_error" } }));
    let steps = [
        Step::TakeIn { last },
        Step::Fail(Failure {
            error,
            then: Then::Exhausted,
        }),
    ];
    for (seq, step) in (1..).zip(steps) {
        let fence = Fence {
            epoch,
            seq,
            acked: seq - 1,
        };
        let proposal = Proposal::Brain {
            thread: 0,
            fence,
            step,
        };
        world.propose(session, proposal).await.unwrap();
    }
}
