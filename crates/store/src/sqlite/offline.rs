//! A database file that is only looked at.

mod projected;
mod rows;

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use outlast_blobs::Blobs;
use outlast_protocol::id::SessionId;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use tokio::runtime::Handle;

use super::{FILE, connect, fault::Fault, load::Loader};
use crate::{
    Audit, End, OfflineError, Onlooker, ReadError, Show,
    bodies::Bodies,
    onlooker::{Projected, Seen, Tables, along},
    stored::{integer, natural, session_id},
};

/// The logs of a data directory, beside a server that may be running.
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
        let (found, known) = (usize::try_from(found).unwrap_or(0), connect::SCHEMA);
        if found != known {
            return Err(OfflineError::Schema { found, known });
        }
        let bodies = Bodies::new(blobs);
        Ok(Self {
            connection,
            loader: Loader { bodies, handle },
        })
    }
}

impl From<rusqlite::Error> for OfflineError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl Onlooker for Offline {
    fn sessions(&self) -> Result<Vec<SessionId>, ReadError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT id FROM sessions ORDER BY no")?;
        let ids = statement.query_map([], |row| row.get::<_, String>(0))?;
        ids.map(|id| Ok(session_id(&id?)?)).collect()
    }

    fn end(&self, session: SessionId) -> Result<Option<End>, ReadError> {
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

    fn along(
        &self,
        session: SessionId,
        noted: &[End],
        show: &mut Show<'_>,
    ) -> Result<Audit, ReadError> {
        along(self, session, noted, show)
    }
}

impl Tables for Offline {
    fn projected(&self, session: SessionId) -> Result<Option<Projected>, ReadError> {
        projected::read(&self.connection, session)
    }

    fn page(&self, kept: &Projected, after: u64) -> Result<Vec<Seen>, ReadError> {
        rows::page(&self.connection, kept, after)
    }

    fn kind(&self, no: i64, position: u64) -> Result<Option<String>, ReadError> {
        let found = self
            .connection
            .prepare_cached("SELECT kind FROM records WHERE session_no = ?1 AND position = ?2")?
            .query_row(params![no, integer(position)], |row| row.get(0))
            .optional()?;
        Ok(found)
    }

    fn body(&self, session: SessionId, digest: &[u8; 32]) -> Result<Option<Bytes>, ReadError> {
        let Loader { bodies, handle } = &self.loader;
        match handle.block_on(bodies.bytes(session, digest)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(outlast_blobs::Error::NotFound(_)) => Ok(None),
            Err(error) => Err(Fault::from(error).into()),
        }
    }
}
