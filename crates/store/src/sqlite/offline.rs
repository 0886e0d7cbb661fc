//! A database that is only looked at: no lock, no migration, no write.

mod audit;
mod projected;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use outlast_blobs::Blobs;
use outlast_protocol::id::SessionId;
use rusqlite::{Connection, OptionalExtension as _, Row};
use tokio::runtime::Handle;

use super::{FILE, connect, fault::Fault, load::Loader};
use crate::{
    End, ReadError,
    bodies::Bodies,
    stored::{natural, session_id},
};

/// Why a database cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// There is none.
    #[error("there is no database `{}`", .0.display())]
    Missing(PathBuf),
    /// Its tables are those of another version.
    #[error("the database has schema {found}, and this version reads {known}")]
    Schema {
        /// What the database has.
        found: i64,
        /// What this version reads.
        known: usize,
    },
    /// It cannot be opened or read.
    #[error("the database cannot be read: {0}")]
    Sql(#[from] rusqlite::Error),
}

/// The logs of a data directory, beside a server that may be running.
///
/// Every method blocks, so it belongs on a thread that may; what it holds open between calls keeps no
/// server from anything.
#[derive(Debug)]
pub struct Offline {
    connection: Connection,
    loader: Loader,
}

impl Offline {
    /// Opens the database of a data directory; `handle` is the runtime that blobs are read on.
    ///
    /// # Errors
    ///
    /// If there is none, or its schema is that of another version.
    pub fn open(dir: &Path, blobs: Arc<dyn Blobs>, handle: Handle) -> Result<Self, OfflineError> {
        let path = dir.join(FILE);
        if !path.exists() {
            return Err(OfflineError::Missing(path));
        }
        let connection = connect::onlooker(&path)?;
        let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let known = connect::SCHEMA;
        if i64::try_from(known) != Ok(found) {
            return Err(OfflineError::Schema { found, known });
        }
        let bodies = Bodies::new(blobs);
        Ok(Self {
            connection,
            loader: Loader { bodies, handle },
        })
    }

    /// Returns the sessions, in the order they came, deleted ones that are not purged yet too.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    pub fn sessions(&self) -> Result<Vec<SessionId>, ReadError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT id FROM sessions ORDER BY no")?;
        let ids = statement.query_map([], |row| row.get::<_, String>(0))?;
        ids.map(|id| Ok(session_id(&id?)?)).collect()
    }

    /// Returns where a session ends by its head; `None` if it is not there, or deleted.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    pub fn end(&self, session: SessionId) -> Result<Option<End>, ReadError> {
        let read = |row: &Row<'_>| {
            Ok(End {
                tail: natural(row.get(0)?),
                hash: row.get(1)?,
            })
        };
        let found = self
            .connection
            .prepare_cached("SELECT tail, hash FROM sessions WHERE id = ?1 AND deleted = 0")?
            .query_row([session.to_string()], read)
            .optional();
        found.map_err(|error| Fault::from(error).into())
    }
}
