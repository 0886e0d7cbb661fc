//! The logs of a storm, read once its server has ended: verified, and shown record by record.

use std::{path::Path, sync::Arc};

use outlast_blobs::{Blobs, Folder};
use outlast_protocol::id::SessionId;
use outlast_session::Record;
use outlast_store::{Found, Onlooker, postgres, sqlite};
use tokio::{runtime::Handle, task::block_in_place};

use super::database::Database;
use crate::{OsEntropy, cli::failure::Failure};

/// The logs of a server that has ended.
#[derive(Debug)]
pub(super) struct Logs(Box<dyn Onlooker + Send>);

impl Logs {
    /// Opens what a storm left.
    pub(super) async fn open(database: &Database, data: &Path) -> Result<Self, Failure> {
        let blobs: Arc<dyn Blobs> = Arc::new(Folder::beside(data.join("blobs")));
        let runtime = Handle::current();
        let opened: Box<dyn Onlooker + Send> = match database.url() {
            Some(url) => {
                let entropy = Arc::new(OsEntropy);
                Box::new(postgres::Offline::open(url, blobs, entropy, runtime).await?)
            }
            None => {
                let opened = block_in_place(|| sqlite::Offline::open(data, blobs, runtime));
                Box::new(opened?)
            }
        };
        Ok(Self(opened))
    }

    /// Goes along a log and shows each record that fits; returns what does not, if anything.
    pub(super) fn along(
        &self,
        session: SessionId,
        show: &mut dyn FnMut(&Record),
    ) -> Result<Option<String>, Failure> {
        let mut shown = |record: &Record| {
            show(record);
            Ok(())
        };
        let audit = block_in_place(|| self.0.along(session, &[], &mut shown))?;
        Ok(match audit.found {
            Found::Whole => None,
            Found::Broken(damaged) => Some(damaged.to_string()),
            Found::Deleted | Found::Gone => Some("it is not there".to_owned()),
        })
    }
}
