//! Following a log: no gap, no double.

use std::{sync::Arc, time::Duration};

use outlast_protocol::id::SessionId;
use outlast_session::Proposal;
use tokio::{sync::Barrier, task::JoinSet};

use super::fixture::World;
use crate::{GONE, ReadError, Slice, Store};

/// Followers, writers, and messages of each writer.
const FOLLOWERS: usize = 4;
const WRITERS: usize = 4;
const MESSAGES: usize = 25;

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    followers_miss_nothing(&world().await).await;
    a_watch_knows_the_tail(&world().await).await;
}

/// Follows until `last` was seen: registers, reads to the head, waits.
async fn follow(store: &dyn Store, session: SessionId, last: u64) -> Vec<u64> {
    let mut tail = store.watch(session).await.unwrap();
    let mut seen = Vec::new();
    loop {
        let head = *tail.borrow_and_update();
        while seen.last().copied().unwrap_or(0) < head {
            let from = seen.last().copied().unwrap_or(0);
            let page = store.read(session, Slice::after(from, 10)).await.unwrap();
            assert!(
                !page.is_empty(),
                "the tail is {head}, but nothing stands after {from}"
            );
            seen.extend(page.iter().map(|record| record.position));
        }
        if seen.last().copied() == Some(last) {
            return seen;
        }
        let waited = tokio::time::timeout(Duration::from_secs(60), tail.changed()).await;
        waited.unwrap().unwrap();
    }
}

async fn followers_miss_nothing(world: &World) {
    let session = world.session().await;
    let last = (1 + WRITERS * MESSAGES) as u64;
    let start = Arc::new(Barrier::new(FOLLOWERS + WRITERS));
    let mut followers = JoinSet::new();
    for _ in 0..FOLLOWERS {
        let (store, start) = (world.store.clone(), start.clone());
        followers.spawn(async move {
            start.wait().await;
            follow(&*store, session, last).await
        });
    }
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let (world, start) = (world.clone(), start.clone());
        writers.spawn(async move {
            start.wait().await;
            for number in 0..MESSAGES {
                world.send(session, &number.to_string()).await;
                tokio::task::yield_now().await;
            }
        });
    }
    writers.join_all().await;
    for seen in followers.join_all().await {
        assert_eq!(seen, (1..=last).collect::<Vec<_>>());
    }
}

async fn a_watch_knows_the_tail(world: &World) {
    let session = world.session().await;
    let mut first = world.store.watch(session).await.unwrap();
    assert_eq!(*first.borrow_and_update(), 1);
    let sent = world.send(session, "hello").await;
    // Told before the answer.
    assert_eq!(*first.borrow_and_update(), sent.state.tail);
    let second = world.store.watch(session).await.unwrap();
    assert_eq!(*second.borrow(), sent.state.tail);

    let other = world.session().await;
    world.send(other, "elsewhere").await;
    assert!(
        !first.has_changed().unwrap(),
        "other sessions are no business of this watch"
    );

    world
        .propose(session, Proposal::Archive(world.key))
        .await
        .unwrap_err();
    let empty = world.session().await;
    let mut watched = world.store.watch(empty).await.unwrap();
    world
        .propose(empty, Proposal::Delete(world.key))
        .await
        .unwrap();
    assert_eq!(*watched.borrow_and_update(), GONE);
    let gone = world.store.watch(empty).await.unwrap_err();
    assert!(matches!(gone, ReadError::NotFound(_)), "{gone}");
}
