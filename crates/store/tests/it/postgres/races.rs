//! Races that only a database with many sessions has.

use futures::future::join_all;
use outlast_session::{Claim, Proposal, Refusal};
use outlast_store::{
    Append, AppendError, ReadError, Slice,
    conformance::fixture::{World, note},
};
use outlast_testkit::postgres::Syncs;
use tokio_util::task::TaskTracker;

use super::{kit::Kit, nodes::whole};

/// Somebody holds the row of a session; returns once they do.
fn block(kit: &Kit, session: &str, seconds: u32) -> std::thread::JoinHandle<()> {
    let url = kit.cluster.url("postgres");
    let (session, wait) = (session.to_owned(), seconds);
    let (held, holds) = std::sync::mpsc::channel();
    let blocker = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
                .await
                .unwrap();
            let talk = async {
                client.batch_execute("BEGIN").await.unwrap();
                let text = "SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE";
                client.query(text, &[&session]).await.unwrap();
                held.send(()).unwrap();
                tokio::time::sleep(std::time::Duration::from_secs(wait.into())).await;
                client.batch_execute("COMMIT").await.unwrap();
            };
            tokio::select! {
                () = talk => {}
                ended = connection => panic!("{ended:?}"),
            }
        });
    });
    holds.recv().unwrap();
    blocker
}

/// Counts those who wait for a row.
async fn waiting(kit: &Kit, wanted: &str) {
    let text = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while kit.cluster.tell(text).unwrap() != wanted {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// A claim and an append of the lease before it queue behind a held row: whatever order the
/// database lets them in, the lease that was taken over writes nothing afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stale_append_that_queued_behind_a_claim_is_refused() {
    let kit = Kit::start(Syncs::None);
    let (_left, left) = kit.world("postgres", "left").await;
    let (_right, subject) = kit.subject("postgres", "right").await;
    let right = World {
        store: subject.store,
        ..left.clone()
    };
    let mut brain = left.running().await;
    brain.say(note("before")).await.unwrap();
    // Both nodes know the head.
    assert_eq!(
        right.state(brain.session).await.tail,
        left.state(brain.session).await.tail
    );

    let tasks = TaskTracker::new();
    let blocker = block(&kit, &brain.session.to_string(), 3);
    let successor = right.process();
    let claim = Claim {
        process: successor,
        dead: Some(left.process),
    };
    let session = brain.session;
    let claiming = {
        let right = right.clone();
        tasks.spawn(async move {
            right
                .propose(session, Proposal::Claim { thread: 0, claim })
                .await
        })
    };
    waiting(&kit, "1").await;
    let stale = brain.at(brain.seq + 1, note("stale"));
    let appending = {
        let left = left.clone();
        tasks.spawn(async move { left.propose(session, stale).await })
    };
    waiting(&kit, "2").await;
    blocker.join().unwrap();
    let claimed = claiming.await.unwrap().unwrap();
    let refused = appending.await.unwrap().unwrap_err();
    assert!(
        matches!(refused, AppendError::Refused(Refusal::Stale { .. })),
        "{refused}"
    );
    let log = left.log(session).await;
    assert_eq!(
        log.len() as u64,
        claimed.state.tail,
        "nothing stands behind the claim"
    );
    whole(&right, session).await;
}

/// One session that many nodes write to at once: heads move under everybody's hands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_writes_to_one_session() {
    let kit = Kit::start(Syncs::None);
    let (_store, first) = kit.world("postgres", "first").await;
    let session = first.session().await;
    let mut nodes = vec![first.clone()];
    for name in ["second", "third", "fourth"] {
        let (_store, subject) = kit.subject("postgres", name).await;
        nodes.push(World {
            store: subject.store,
            ..first.clone()
        });
    }
    let writers = nodes.iter().map(|world| async move {
        for number in 0..25 {
            let pair = [(); 3].map(|()| {
                let proposal = world.message(&number.to_string());
                let receipt = None;
                world.store.append(session, Append { proposal, receipt })
            });
            for answer in join_all(pair).await {
                answer.unwrap();
            }
        }
    });
    join_all(writers).await;
    assert_eq!(whole(&first, session).await, 1 + 4 * 25 * 3);
}

/// A record that a later version wrote is refused by its name, and its neighbours are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_the_future_are_refused_by_name() {
    let kit = Kit::start(Syncs::None);
    let (store, world) = kit.world("postgres", "old").await;
    let (future, neighbour) = (world.session().await, world.session().await);
    world.send(future, "hello").await;
    store.close().await;
    let change = format!(
        "UPDATE records SET kind = 'x.of_the_future' WHERE position = 2; \
         UPDATE sessions SET state_version = 999 WHERE id = '{future}'"
    );
    kit.cluster.tell(&change).unwrap();

    let (_store, subject) = kit.subject("postgres", "old").await;
    let world = World {
        store: subject.store,
        ..world
    };
    let sends = [future, neighbour].map(|session| world.propose(session, world.message("more")));
    let [refused, served] = join_all(sends).await.try_into().unwrap();
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("x.of_the_future"), "{refused}");
    served.unwrap();
    let unread = world
        .store
        .read(future, Slice::after(0, 9))
        .await
        .unwrap_err();
    assert!(
        matches!(&unread, ReadError::Unreadable(words) if words.contains("x.of_the_future")),
        "{unread}"
    );
}
