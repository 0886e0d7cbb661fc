//! Nodes that share a database.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use outlast_blobs::{Blobs, Folder};
use outlast_session::Rules;
use outlast_store::{
    conformance::fixture::{Subject, World},
    postgres::{OpenError, Options, Postgres, SILENCE},
};
use outlast_testkit::{
    postgres::{Cluster, Syncs},
    random::Seeded,
    time::ManualClock,
};
use tempfile::TempDir;

/// A database server, and folders of nodes.
#[derive(Debug)]
pub(crate) struct Kit {
    pub(crate) cluster: Cluster,
    pub(crate) root: TempDir,
    pub(crate) clock: Arc<ManualClock>,
    next: AtomicU64,
    /// The longest wait for an answer.
    pub(crate) silence: Duration,
}

impl Kit {
    pub(crate) fn start(syncs: Syncs) -> Self {
        Self {
            cluster: Cluster::start(syncs),
            root: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::default()),
            next: AtomicU64::new(1),
            silence: SILENCE,
        }
    }

    /// Opens the store of a node in a database; what nodes draw is never the same.
    pub(crate) async fn open(&self, database: &str, node: &str) -> Result<Postgres, OpenError> {
        let (store, _) = self.with(database, node).await?;
        Ok(store)
    }

    /// Opens the store of a node in the database that a URL leads to.
    pub(crate) async fn at(&self, url: &str, node: &str) -> Result<Postgres, OpenError> {
        let (store, _) = self.by(url.to_owned(), "postgres", node).await?;
        Ok(store)
    }

    async fn with(&self, database: &str, node: &str) -> Result<(Postgres, Arc<Seeded>), OpenError> {
        self.by(self.cluster.url(database), database, node).await
    }

    async fn by(
        &self,
        url: String,
        database: &str,
        node: &str,
    ) -> Result<(Postgres, Arc<Seeded>), OpenError> {
        let entropy = Arc::new(Seeded::new(self.next.fetch_add(1, Ordering::Relaxed)));
        let store = Postgres::open(Options {
            url,
            dir: self.root.path().join(node),
            blobs: self.blobs(database),
            clock: self.clock.clone(),
            entropy: entropy.clone(),
            // Processes are killed again and again, and no session is to blame.
            rules: Rules {
                attempts: 1_000,
                ..Rules::default()
            },
            takes_system: Arc::new(|_| true),
            silence: self.silence,
        })
        .await?;
        Ok((store, entropy))
    }

    /// All nodes of a database have their large bodies in one place.
    pub(crate) fn blobs(&self, database: &str) -> Arc<dyn Blobs> {
        let dir: &Path = self.root.path();
        Arc::new(Folder::open(dir.join(format!("blobs-{database}"))).unwrap())
    }

    /// Opens a node's store, as the suite wants it.
    pub(crate) async fn subject(&self, database: &str, node: &str) -> (Postgres, Subject) {
        let (store, entropy) = self.with(database, node).await.unwrap();
        let subject = Subject {
            store: Arc::new(store.clone()),
            clock: self.clock.clone(),
            entropy,
        };
        (store, subject)
    }

    /// The same as [`Kit::world`] in the database that a URL leads to.
    pub(crate) async fn world_at(&self, url: &str, node: &str) -> (Postgres, World) {
        let (store, entropy) = self.by(url.to_owned(), "postgres", node).await.unwrap();
        let subject = Subject {
            store: Arc::new(store.clone()),
            clock: self.clock.clone(),
            entropy,
        };
        (store, World::new(subject).await)
    }

    /// Opens a node's store, and puts an agent and what else sessions need into it.
    pub(crate) async fn world(&self, database: &str, node: &str) -> (Postgres, World) {
        let (store, subject) = self.subject(database, node).await;
        (store, World::new(subject).await)
    }
}
