//! Large bodies: away from the writer, in order, and gone with what named them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use outlast_blobs::{Blobs, Error, Key, Reader};
use outlast_protocol::id::SessionId;
use outlast_session::{Kind, Proposal};
use outlast_store::{Append, AppendError, INLINE, Log as _, verify};
use outlast_testkit::blobs::Memory;
use tokio::sync::Semaphore;

use crate::kit::Kit;

/// Blobs that are stored only when the test lets them.
#[derive(Debug)]
struct Gated {
    inner: Memory,
    gate: Semaphore,
}

#[async_trait]
impl Blobs for Gated {
    async fn put(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        self.gate.acquire().await.unwrap().forget();
        self.inner.put(key, bytes).await
    }

    async fn put_from(&self, key: &Key, content: Reader) -> Result<u64, Error> {
        self.inner.put_from(key, content).await
    }

    async fn open(&self, key: &Key, from: u64) -> Result<Reader, Error> {
        self.inner.open(key, from).await
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        self.inner.get(key).await
    }

    async fn delete(&self, key: &Key) -> Result<(), Error> {
        self.inner.delete(key).await
    }

    async fn delete_prefix(&self, prefix: &Key, limit: usize) -> Result<usize, Error> {
        self.inner.delete_prefix(prefix, limit).await
    }

    async fn list(
        &self,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, Error> {
        self.inner.list(prefix, after, limit).await
    }
}

fn large(text: &str) -> String {
    text.repeat(2 * INLINE)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_body_keeps_its_place_and_holds_up_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Arc::new(Gated {
        inner: Memory::default(),
        gate: Semaphore::new(0),
    });
    let kit = Kit::on(dir.path(), 1, blobs.clone()).await;
    let world = kit.world().await;
    let (slow, other) = (world.session().await, world.session().await);
    let send = |session: SessionId, text: &str| {
        kit.store.append(
            session,
            Append {
                proposal: world.message(text),
                receipt: None,
            },
        )
    };
    let waiting = [large("a"), "b".to_owned(), large("c"), "d".to_owned()];
    let waiting = waiting.map(|text| send(slow, &text));
    // Its session waits for the body; all others go on.
    assert_eq!(send(other, "meanwhile").await.unwrap().state.tail, 2);
    assert_eq!(world.state(slow).await.tail, 1);

    blobs.gate.add_permits(2);
    let outcomes = join_all(waiting).await;
    let tails: Vec<u64> = outcomes
        .into_iter()
        .map(|sent| sent.unwrap().state.tail)
        .collect();
    assert_eq!(tails, [2, 3, 4, 5]);
    verify(slow, &world.log(slow).await).unwrap();
    assert_eq!(blobs.inner.keys().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_without_a_record_does_not_stay() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Arc::new(Memory::default());
    let kit = Kit::on(dir.path(), 1, blobs.clone()).await;
    let world = kit.world().await;
    let ended = world.session().await;
    world
        .propose(ended, Proposal::Archive(world.key))
        .await
        .unwrap();
    let refused = world
        .propose(ended, world.message(&large("x")))
        .await
        .unwrap_err();
    assert!(matches!(refused, AppendError::Refused(_)), "{refused}");
    let nobody = world
        .propose(world.session_id(), world.message(&large("x")))
        .await
        .unwrap_err();
    assert!(matches!(nobody, AppendError::NotFound(_)), "{nobody}");
    let gone = async {
        while !blobs.keys().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_blobs_fail_large_bodies_alone() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Arc::new(Memory::default());
    let kit = Kit::on(dir.path(), 1, blobs.clone()).await;
    let world = kit.world().await;
    let session = world.session().await;
    blobs.fail(true);
    let (first, second) = tokio::join!(
        world.propose(session, world.message(&large("x"))),
        world.send(session, "y")
    );
    assert!(
        matches!(first, Err(AppendError::Unavailable(_))),
        "{first:?}"
    );
    assert_eq!(second.state.tail, 2);
    // A large body that only the decision makes: the configuration of a new session.
    let mut new = world.create();
    let mut config = (*new.config).clone();
    config.agent.system = Some(large("s"));
    new.config = Arc::new(config);
    let (id, create) = (new.id, Proposal::Create(Box::new(new)));
    let error = world.propose(id, create.clone()).await.unwrap_err();
    assert!(matches!(error, AppendError::Unavailable(_)), "{error}");
    blobs.fail(false);
    world.propose(id, create).await.unwrap();
    assert_eq!(world.send(session, &large("x")).await.state.tail, 3);
    verify(id, &world.log(id).await).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purging_takes_the_blobs_along() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Arc::new(Memory::default());
    let kit = Kit::on(dir.path(), 1, blobs.clone()).await;
    let world = kit.world().await;
    let mut new = world.create();
    let mut config = (*new.config).clone();
    config.agent.system = Some(large("s"));
    new.config = Arc::new(config);
    let id = new.id;
    world
        .propose(id, Proposal::Create(Box::new(new)))
        .await
        .unwrap();
    let kept = world.session().await;
    world.send(kept, &large("k")).await;
    world
        .propose(id, Proposal::Delete(world.key))
        .await
        .unwrap();
    assert_eq!(blobs.keys().len(), 2, "the tombstone alone removes nothing");
    while kit.store.purge(1).await.unwrap() > 0 {}
    let left = blobs.keys();
    assert_eq!(left.len(), 1);
    assert!(left[0].as_str().starts_with(&format!("sessions/{kept}/")));
    let log = world.log(kept).await;
    assert_eq!(log.last().unwrap().kind, Kind::ArrivedMessage);
}
