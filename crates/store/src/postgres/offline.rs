//! A Postgres that is only looked at.

mod projected;
mod rows;

use std::sync::Arc;

use bytes::Bytes;
use outlast_blobs::Blobs;
use outlast_protocol::{id::SessionId, seam::Entropy};
use tokio::runtime::Handle;

use super::{
    connect::{Connection, Connector, Durability},
    fault::Fault,
    migrate,
    rows::array,
    url::Target,
};
use crate::{
    Audit, End, OfflineError, Onlooker, ReadError, Show,
    bodies::Bodies,
    onlooker::{Projected, Seen, Tables, along},
    stored::{integer, natural, session_id},
};

/// The logs of a Postgres, beside nodes that may be running.
#[derive(Debug)]
pub struct Offline {
    connection: Connection,
    bodies: Bodies,
    runtime: Handle,
}

impl Offline {
    /// Opens a database; `runtime` is what it is read on.
    ///
    /// # Errors
    ///
    /// If the URL cannot be used, the database cannot be reached, or its schema is that of another
    /// version.
    pub async fn open(
        url: &str,
        blobs: Arc<dyn Blobs>,
        entropy: Arc<dyn Entropy>,
        runtime: Handle,
    ) -> Result<Self, OfflineError> {
        let connector = Connector::new(Target::parse(url)?, entropy);
        let connection = connector.connect(Durability::Hasty).await?;
        connection
            .batch("SET default_transaction_read_only = on")
            .await?;
        let (found, known) = (migrate::found(&connection).await?, migrate::SCHEMA);
        if found != known {
            return Err(OfflineError::Schema { found, known });
        }
        Ok(Self {
            connection,
            bodies: Bodies::new(blobs),
            runtime,
        })
    }

    /// Waits for an answer of the database, on a thread that may.
    fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime.block_on(answer)
    }
}

impl From<Fault> for OfflineError {
    fn from(fault: Fault) -> Self {
        Self::Unreadable(fault.to_string())
    }
}

impl Onlooker for Offline {
    fn sessions(&self) -> Result<Vec<SessionId>, ReadError> {
        let text = "SELECT id FROM sessions ORDER BY no";
        let rows = self.wait(self.connection.rows(text, &[]))?;
        let ids = rows.iter().map(|row| Ok(session_id(row.try_get(0)?)?));
        ids.collect()
    }

    fn end(&self, session: SessionId) -> Result<Option<End>, ReadError> {
        let text = "SELECT tail, hash FROM sessions WHERE id = $1 AND NOT deleted";
        let id = session.to_string();
        let Some(row) = self.wait(self.connection.row(text, &[&id]))? else {
            return Ok(None);
        };
        Ok(Some(End {
            tail: natural(row.try_get(0)?),
            hash: array(row.try_get(1)?)?,
        }))
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
        Ok(self.wait(projected::read(&self.connection, session))?)
    }

    fn page(&self, kept: &Projected, after: u64) -> Result<Vec<Seen>, ReadError> {
        Ok(self.wait(rows::page(&self.connection, kept, after))?)
    }

    fn kind(&self, no: i64, position: u64) -> Result<Option<String>, ReadError> {
        let text = "SELECT kind FROM records WHERE session_no = $1 AND position = $2";
        let found = self.wait(self.connection.row(text, &[&no, &integer(position)]))?;
        found.map(|row| Ok(row.try_get(0)?)).transpose()
    }

    fn body(&self, session: SessionId, digest: &[u8; 32]) -> Result<Option<Bytes>, ReadError> {
        match self.wait(self.bodies.bytes(session, digest)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(outlast_blobs::Error::NotFound(_)) => Ok(None),
            Err(error) => Err(Fault::from(error).into()),
        }
    }
}
