//! Removing what deleted sessions left, a little at a time.

use outlast_protocol::id::SessionId;

use super::{Postgres, connect::Connection, fault::Fault};
use crate::{
    ReadError,
    stored::{bound, session_id},
};

/// Rows that one statement removes: some milliseconds.
const CHUNK: usize = 500;
/// Blobs that one step removes.
const BLOBS: usize = 100;

impl Postgres {
    /// Removes up to `limit` rows of deleted sessions.
    ///
    /// Records go first, then blobs, then the session's own row: whatever a crash interrupts is
    /// taken up again, by whichever node.
    pub(super) async fn purge_rows(&self, limit: usize) -> Result<usize, ReadError> {
        let mut gone = 0;
        while gone < limit {
            let next = deleted(&*self.pool.get().await?).await?;
            let Some((no, session)) = next else { break };
            let room = (limit - gone).min(CHUNK);
            let rows = records(&*self.pool.get().await?, no, room).await?;
            gone += rows;
            if rows == 0 {
                let bodies = &self.room.bodies;
                while bodies.purge(session, BLOBS).await.map_err(Fault::from)? == BLOBS {}
                gone += row(&*self.pool.get().await?, no).await?;
            }
        }
        Ok(gone)
    }
}

/// Returns a deleted session that is still there.
async fn deleted(connection: &Connection) -> Result<Option<(i64, SessionId)>, Fault> {
    let text = "SELECT no, id FROM sessions WHERE deleted ORDER BY no LIMIT 1";
    let Some(row) = connection.row(text, &[]).await? else {
        return Ok(None);
    };
    Ok(Some((row.try_get(0)?, session_id(row.try_get(1)?)?)))
}

async fn records(connection: &Connection, no: i64, limit: usize) -> Result<usize, Fault> {
    let text = "DELETE FROM records WHERE session_no = $1 AND position IN \
                (SELECT position FROM records WHERE session_no = $1 ORDER BY position LIMIT $2)";
    let gone = connection.run(text, &[&no, &bound(limit)]).await?;
    Ok(usize::try_from(gone).unwrap_or(usize::MAX))
}

async fn row(connection: &Connection, no: i64) -> Result<usize, Fault> {
    let text = "DELETE FROM sessions WHERE no = $1 AND deleted";
    let gone = connection.run(text, &[&no]).await?;
    Ok(usize::try_from(gone).unwrap_or(usize::MAX))
}
