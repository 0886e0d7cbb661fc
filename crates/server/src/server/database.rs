//! The store that is configured.

use std::{path::Path, sync::Arc};

use outlast_blobs::Blobs;
use outlast_protocol::seam::{Clock, Entropy};
use outlast_session::Rules;
use outlast_store::{
    Intake, Store, Trim,
    postgres::{self, Postgres},
    sqlite::{self, Sqlite},
};

use super::StartError;
use crate::config::Config;

/// A store, and how it is closed.
#[derive(Clone, Debug)]
pub(crate) enum Database {
    /// A file in the data directory.
    File(Sqlite),
    /// A Postgres.
    Shared(Postgres),
}

/// What a store is opened with.
pub(super) struct Seams {
    pub(super) blobs: Arc<dyn Blobs>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) rules: Rules,
    pub(super) takes_system: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Database {
    /// Opens what is configured; it holds the data directory either way.
    pub(super) async fn open(
        config: &Config,
        dir: &Path,
        seams: Seams,
    ) -> Result<Self, StartError> {
        let Seams {
            blobs,
            clock,
            entropy,
            rules,
            takes_system,
        } = seams;
        let dir = dir.to_owned();
        match config.database.url() {
            Some(url) => {
                let options = postgres::Options {
                    url: url.to_owned(),
                    dir,
                    blobs,
                    clock,
                    entropy,
                    rules,
                    takes_system,
                    silence: postgres::SILENCE,
                };
                Ok(Self::Shared(Postgres::open(options).await?))
            }
            None => {
                let options = sqlite::Options {
                    dir,
                    blobs,
                    clock,
                    entropy,
                    rules,
                    takes_system,
                };
                Ok(Self::File(Sqlite::open(options).await?))
            }
        }
    }

    /// Tells whether other processes can use it too.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Self::File(_) => false,
            Self::Shared(_) => true,
        }
    }

    /// Returns it as everybody else sees it.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::File(store) => Arc::new(store.clone()),
            Self::Shared(store) => Arc::new(store.clone()),
        }
    }

    /// Returns it as who removes old entries of the audit log sees it.
    pub(super) fn trim(&self) -> Arc<dyn Trim> {
        match self {
            Self::File(store) => Arc::new(store.clone()),
            Self::Shared(store) => Arc::new(store.clone()),
        }
    }

    /// Returns it as who takes in whole logs sees it.
    pub(crate) fn intake(&self) -> Arc<dyn Intake> {
        match self {
            Self::File(store) => Arc::new(store.clone()),
            Self::Shared(store) => Arc::new(store.clone()),
        }
    }

    /// Finishes what is being written, and lets go of the data directory.
    pub(crate) async fn close(&self) {
        match self {
            Self::File(store) => store.close().await,
            Self::Shared(store) => store.close().await,
        }
    }
}
