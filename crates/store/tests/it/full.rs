//! A full disk refuses what is new, loses nothing, and is forgiven once there is room again.
//!
//! The limit on the size of files stands for the disk: a write beyond it fails as on a full one,
//! for the database, its log and blobs alike, and it needs neither a mount nor privileges.

use std::{path::Path, time::Duration};

use futures::future::join_all;
use outlast_protocol::audit::{Actor, Entry};
use outlast_session::Step;
use outlast_store::{
    Append, AppendError, AuditLine, AuditQuery, Log as _, Order, Slice,
    conformance::fixture::{Brain, World, note},
    verify,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::process::Command;

use crate::kit::Kit;

const DIR: &str = "OUTLAST_TEST_FULL_DIR";
/// Blocks of 512 bytes that a file can have at first: 4 MiB.
const BLOCKS: u64 = 8_192;

#[tokio::test]
async fn a_full_disk_loses_nothing_and_is_forgiven() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("trap '' XFSZ; ulimit -S -f {BLOCKS}; exec \"$0\" \"$@\"");
    let status = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "full::the_process_on_a_small_disk",
            "--nocapture",
        ])
        .env(DIR, dir.path())
        .kill_on_drop(true)
        .status()
        .await
        .unwrap();
    assert!(status.success(), "{status}");

    // It left a store that any other process can go on with.
    let kit = Kit::open(dir.path(), 2).await.unwrap();
    let world = kit.world().await;
    let found = kit
        .store
        .ready(outlast_protocol::Micros(i64::MAX), 10)
        .await
        .unwrap();
    let log = world.log(found[0].session).await;
    verify(found[0].session, &log).unwrap();
    assert!(log.len() > 100, "{}", log.len());
    kit.store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the process that `a_full_disk_loses_nothing_and_is_forgiven` starts under a limit"]
async fn the_process_on_a_small_disk() {
    let Ok(dir) = std::env::var(DIR) else { return };
    fill(dir.as_ref()).await;
}

async fn fill(dir: &Path) {
    let kit = Kit::open(dir, 1).await.unwrap();
    let world = kit.world().await;
    let mut brain = world.running().await;
    let mut tail = world.state(brain.session).await.tail;
    // Small writes fit for longer than large ones, and a probe for longest.
    for size in [30_000, 300] {
        let error = until_full(&mut brain, size, &mut tail).await;
        assert!(matches!(error, AppendError::Unavailable(_)), "{error}");
        brain.seq -= 1;
    }
    brain.seq += 1;
    let probes = async { while world.store.probe().await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(60), probes)
        .await
        .unwrap();

    // While it is full: no append of any session, no probe; whatever was accepted can be read.
    for _ in 0..5 {
        refuses(&world, &brain).await;
    }
    assert_eq!(world.state(brain.session).await.tail, tail);
    let last = world
        .store
        .read(brain.session, Slice::after(tail - 1, 10))
        .await
        .unwrap();
    assert_eq!(last.len(), 1);
    // Several at once, so that they share a batch.
    let crowd = (0..8).map(|_| {
        let append = Append {
            proposal: brain.at(brain.seq, big()),
            receipt: None,
        };
        world.store.append(brain.session, append)
    });
    assert!(join_all(crowd).await.iter().all(Result::is_err));
    // What somebody did meanwhile waits to be told, and nothing is written before it is.
    let entry = |no: u32| Entry::new(world.clock.now(), Actor::Cli, format!("told {no}"));
    let told = [1, 2, 3].map(entry);
    for entry in told.clone() {
        let line = AuditLine::Entry(entry);
        world.store.audit(vec![line]).await.unwrap();
    }
    refuses(&world, &brain).await;

    // Room again: it goes on by itself, from what it had accepted.
    let limit = getrlimit(Resource::Fsize);
    setrlimit(
        Resource::Fsize,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )
    .unwrap();
    world.store.probe().await.unwrap();
    let all = AuditQuery {
        actor: None,
        action: None,
        subject: None,
        since: None,
        until: None,
        order: Order::Forwards,
        after: None,
        limit: 9,
    };
    let listed = world.store.audit_log(&all).await.unwrap().items;
    let listed: Vec<Entry> = listed.into_iter().map(|shown| shown.entry).collect();
    assert_eq!(listed, told);
    brain.seq -= 1;
    let resumed = brain.say(big()).await.unwrap();
    assert_eq!(resumed.state.tail, tail + 1);
    verify(brain.session, &world.log(brain.session).await).unwrap();
    kit.store.close().await;
}

fn big() -> Step {
    of_size(30_000)
}

fn of_size(size: usize) -> Step {
    note(&"n".repeat(size))
}

async fn until_full(brain: &mut Brain<'_>, size: usize, tail: &mut u64) -> AppendError {
    loop {
        let saying = brain.say(of_size(size));
        match tokio::time::timeout(Duration::from_secs(60), saying)
            .await
            .unwrap()
        {
            Ok(outcome) => *tail = outcome.state.tail,
            Err(error) => return error,
        }
    }
}

async fn refuses(world: &World, brain: &Brain<'_>) {
    let same = world
        .propose(brain.session, brain.at(brain.seq, big()))
        .await
        .unwrap_err();
    assert!(matches!(same, AppendError::Unavailable(_)), "{same}");
    let new = world.create();
    let other = outlast_session::Proposal::Create(Box::new(new.clone()));
    let other = world.propose(new.id, other).await.unwrap_err();
    assert!(matches!(other, AppendError::Unavailable(_)), "{other}");
    world.store.probe().await.unwrap_err();
    world.store.head(new.id).await.unwrap_err();
}
