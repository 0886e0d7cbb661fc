//! What a later process finds.

use std::path::Path;

use outlast_session::{Proposal, State};
use outlast_store::{
    LockError, Log as _, Order, Resources as _, SessionQuery,
    conformance::fixture::{World, note},
    sqlite::OpenError,
};
use rusqlite::Connection;

use crate::kit::Kit;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_is_told_who_has_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let first = Kit::open(dir.path(), 1).await.unwrap();
    let error = Kit::open(dir.path(), 2).await.unwrap_err();
    let pid = std::process::id().to_string();
    assert!(
        matches!(&error, OpenError::Lock(LockError::Held { holder, .. }) if *holder == pid),
        "{error}"
    );
    assert!(error.to_string().contains(&pid), "{error}");
    first.store.close().await;
    Kit::open(dir.path(), 3).await.unwrap();
}

async fn listed(world: &World) -> Vec<State> {
    let query = SessionQuery {
        agent: None,
        agent_version: None,
        statuses: Vec::new(),
        created_gt: None,
        created_gte: None,
        created_lt: None,
        created_lte: None,
        archived: true,
        order: Order::Forwards,
        after: None,
        limit: 100,
    };
    let page = world.store.sessions(&query).await.unwrap();
    page.sessions
        .iter()
        .map(|state| (**state).clone())
        .collect()
}

/// Sessions of every kind: idle, queued, running, archived, failed, deleted.
async fn populate(world: &World) {
    world.session().await;
    let queued = world.session().await;
    world.send(queued, "waits").await;
    world.running().await.say(note("thinking")).await.unwrap();
    let archived = world.session().await;
    world
        .propose(archived, Proposal::Archive(world.key))
        .await
        .unwrap();
    let deleted = world.session().await;
    world
        .propose(deleted, Proposal::Delete(world.key))
        .await
        .unwrap();
    let large = world.session().await;
    world.send(large, &"l".repeat(200_000)).await;
}

fn beside(dir: &Path) -> Connection {
    Connection::open(dir.join("outlast.db")).unwrap()
}

/// Everything that is projected, but for the hint of fairness.
fn projections(dir: &Path) -> Vec<String> {
    let database = beside(dir);
    let queries = [
        "SELECT id || tail || hex(hash) || created || ifnull(archived, '-') || deleted || status \
         || agent || agent_version || environment || state_version || state FROM sessions \
         WHERE deleted = 0 ORDER BY no",
        "SELECT session_no || body FROM configs JOIN sessions ON no = session_no \
         WHERE deleted = 0 ORDER BY session_no",
        "SELECT session_no || ' ' || thread || ' ' || epoch || ' ' || attempts || \
         ifnull(holder, '-') || work || ifnull(ready_at, '-') FROM threads ORDER BY session_no",
    ];
    let mut rows = Vec::new();
    for query in queries {
        let mut statement = database.prepare(query).unwrap();
        let found = statement.query_map([], |row| row.get(0)).unwrap();
        rows.extend(found.map(Result::unwrap));
    }
    rows
}

/// The log is the truth: drop every projection, and it folds to the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_projection_can_be_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path(), 1).await.unwrap();
    let world = kit.world().await;
    populate(&world).await;
    let (states, ready) = (listed(&world).await, ready(&world).await);
    kit.store.close().await;
    let before = projections(dir.path());
    beside(dir.path())
        .execute_batch(
            "UPDATE sessions SET state = '', state_version = 0, status = 'lost', agent = '', \
             agent_version = 0, environment = '', archived = NULL, created = 0; \
             DELETE FROM threads; DELETE FROM configs; DELETE FROM snapshots;",
        )
        .unwrap();

    let kit = Kit::open(dir.path(), 2).await.unwrap();
    assert_eq!(kit.store.rebuild().await.unwrap(), 6);
    assert_eq!(projections(dir.path()), before);
    let world = World {
        store: std::sync::Arc::new(kit.store.clone()),
        ..world
    };
    assert_eq!(listed(&world).await, states);
    assert_eq!(self::ready(&world).await, ready);
}

async fn ready(world: &World) -> Vec<outlast_protocol::id::SessionId> {
    let far = outlast_protocol::Micros(i64::MAX);
    let mut found: Vec<_> = world
        .store
        .ready(far, 100)
        .await
        .unwrap()
        .iter()
        .map(|ready| ready.session)
        .collect();
    found.sort();
    found
}

/// A state of another version, or none at all, is folded again where it is read or written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_of_another_version_are_folded_again() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path(), 1).await.unwrap();
    let world = kit.world().await;
    populate(&world).await;
    let states = listed(&world).await;
    kit.store.close().await;
    beside(dir.path())
        .execute_batch("UPDATE sessions SET state = '{\"new\": true}', state_version = 65535")
        .unwrap();

    let kit = Kit::open(dir.path(), 2).await.unwrap();
    let world = World {
        store: std::sync::Arc::new(kit.store.clone()),
        ..world
    };
    assert_eq!(listed(&world).await, states);
    let session = states[1].id;
    assert_eq!(*world.state(session).await, states[1]);
    let sent = world.send(session, "goes on").await;
    assert_eq!(sent.state.tail, states[1].tail + 1);
}

/// A kind of the future is refused by name, and harms no other session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_of_the_future_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path(), 1).await.unwrap();
    let world = kit.world().await;
    let (future, present) = (world.session().await, world.session().await);
    world.send(future, "hello").await;
    beside(dir.path())
        .execute(
            "UPDATE records SET kind = 'x.teleported' WHERE position = 2",
            [],
        )
        .unwrap();
    let error = world
        .store
        .read(future, outlast_store::Slice::after(0, 9))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("x.teleported"), "{error}");
    assert_eq!(world.log(present).await.len(), 1);
}

/// On one machine whoever has the directory knows that all others are dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_finds_what_its_predecessor_held() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path(), 1).await.unwrap();
    let world = kit.world().await;
    let (session, dead) = (world.running().await.session, world.process);
    kit.store.close().await;
    let kit = Kit::open(dir.path(), 2).await.unwrap();
    let successor = outlast_protocol::id::ProcessId::mint(
        outlast_protocol::Micros(1_900_000_000_000_000),
        &*kit.entropy,
    );
    let now = outlast_protocol::Micros(1_900_000_000_000_000);
    kit.store.register(successor, now).await.unwrap();
    let found = kit.store.ready(now, 10).await.unwrap();
    let left = outlast_store::Ready {
        session,
        thread: 0,
        dead: Some(dead),
    };
    assert_eq!(found, [left]);
}
