//! A store in a directory of its own.

use std::{path::Path, sync::Arc};

use outlast_blobs::{Blobs, Folder};
use outlast_session::Rules;
use outlast_store::{
    conformance::fixture::{Subject, World},
    sqlite::{OpenError, Options, Sqlite},
};
use outlast_testkit::{random::Seeded, time::ManualClock};

/// A store with what belongs to it.
#[derive(Debug)]
pub(crate) struct Kit {
    pub(crate) store: Sqlite,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) entropy: Arc<Seeded>,
}

impl Kit {
    /// Opens the store of a directory; a seed that was used on it before draws known ids again.
    pub(crate) async fn open(dir: &Path, seed: u64) -> Result<Self, OpenError> {
        let blobs = Arc::new(Folder::open(dir.join("blobs")).unwrap());
        Self::with(dir, seed, blobs).await
    }

    /// Opens a store whose large bodies go elsewhere.
    pub(crate) async fn on(dir: &Path, seed: u64, blobs: Arc<dyn Blobs>) -> Self {
        Self::with(dir, seed, blobs).await.unwrap()
    }

    async fn with(dir: &Path, seed: u64, blobs: Arc<dyn Blobs>) -> Result<Self, OpenError> {
        let (clock, entropy) = (
            Arc::new(ManualClock::default()),
            Arc::new(Seeded::new(seed)),
        );
        let store = Sqlite::open(Options {
            dir: dir.to_owned(),
            blobs,
            clock: clock.clone(),
            entropy: entropy.clone(),
            // Processes are killed again and again, and no session is to blame.
            rules: Rules {
                attempts: 1_000,
                ..Rules::default()
            },
            takes_system: Arc::new(|_| true),
        })
        .await?;
        Ok(Self {
            store,
            clock,
            entropy,
        })
    }

    pub(crate) fn subject(&self) -> Subject {
        let (clock, entropy) = (self.clock.clone(), self.entropy.clone());
        Subject {
            store: Arc::new(self.store.clone()),
            clock,
            entropy,
        }
    }

    pub(crate) async fn world(&self) -> World {
        World::new(self.subject()).await
    }
}
