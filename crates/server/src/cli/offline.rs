//! Logs looked at without a server.

use std::{path::Path, sync::Arc};

use outlast_blobs::{Blobs, Folder};
use outlast_store::{OfflineError, Onlooker, ReadError, postgres, sqlite};
use tokio::{runtime::Handle, task::block_in_place};

use super::failure::{Exit, Failure};
use crate::{
    OsEntropy,
    config::{Config, Loaded},
};

/// Opens what is configured, and does something with it that may block.
pub(super) fn with<T>(
    loaded: &Loaded,
    work: impl FnOnce(&dyn Onlooker) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (config, dir) = (&loaded.config, &loaded.data_dir);
    let blobs = beside(config, dir)?;
    block_in_place(|| {
        let runtime = Handle::current();
        match config.database.url() {
            Some(url) => {
                let entropy = Arc::new(OsEntropy);
                let opening = postgres::Offline::open(url, blobs, entropy, runtime.clone());
                work(&runtime.block_on(opening)?)
            }
            None => work(&sqlite::Offline::open(dir, blobs, runtime)?),
        }
    })
}

/// Opens the bucket, or the folder as a guest.
fn beside(config: &Config, dir: &Path) -> Result<Arc<dyn Blobs>, Failure> {
    let bucket = config.blobs.bucket();
    let bucket = bucket.map_err(|error| Failure::new(Exit::Usage, error))?;
    Ok(match bucket {
        Some(bucket) => Arc::new(bucket),
        None => Arc::new(Folder::beside(dir.join("blobs"))),
    })
}

impl From<OfflineError> for Failure {
    fn from(error: OfflineError) -> Self {
        let hint = match &error {
            OfflineError::Missing(_) => Some("--data-dir names the directory of a server"),
            OfflineError::Schema { found, known } if found < known => {
                Some("`outlast migrate` brings it up to date")
            }
            OfflineError::Schema { .. } => Some("a later version of outlast wrote it"),
            OfflineError::Url(_) | OfflineError::Unreadable(_) => None,
        };
        let exit = match &error {
            OfflineError::Url(_) => Exit::Usage,
            OfflineError::Missing(_)
            | OfflineError::Schema { .. }
            | OfflineError::Unreadable(_) => Exit::Failed,
        };
        let failure = Self::new(exit, error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::new(Exit::Failed, error)
    }
}
