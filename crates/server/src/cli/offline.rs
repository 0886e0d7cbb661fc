//! The logs of a data directory, looked at without a server.

use std::{path::Path, sync::Arc};

use outlast_blobs::{Blobs, Folder};
use outlast_store::{
    ReadError,
    sqlite::{Offline, OfflineError},
};
use tokio::{runtime::Handle, task::block_in_place};

use super::failure::{Exit, Failure};
use crate::config::{Config, Loaded};

/// Opens what is configured, and does something with it that may block.
pub(super) fn with<T>(
    loaded: &Loaded,
    work: impl FnOnce(&Offline) -> Result<T, Failure>,
) -> Result<T, Failure> {
    in_a_file(&loaded.config)?;
    let blobs = beside(&loaded.config, &loaded.data_dir)?;
    block_in_place(|| {
        let offline = Offline::open(&loaded.data_dir, blobs, Handle::current())?;
        work(&offline)
    })
}

/// Refuses where the sessions are not in the data directory.
pub(super) fn in_a_file(config: &Config) -> Result<(), Failure> {
    if config.database.url().is_none() {
        return Ok(());
    }
    let words = "the sessions are in a Postgres, and this command reads `outlast.db`";
    let hint = "without `database.url` it looks into the data directory";
    Err(Failure::say(Exit::Usage, words).hint(hint))
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
            OfflineError::Schema { found, known }
                if usize::try_from(*found).is_ok_and(|found| found < *known) =>
            {
                Some("`outlast migrate` brings it up to date")
            }
            OfflineError::Schema { .. } => Some("a later version of outlast wrote it"),
            OfflineError::Sql(_) => None,
        };
        let failure = Self::new(Exit::Failed, error);
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
