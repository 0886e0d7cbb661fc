//! Removing what deleted sessions left, a little at a time.

use outlast_protocol::id::SessionId;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Sqlite, fault::Fault, resources::Written};
use crate::{
    ReadError, WriteError,
    stored::{bound, session_id},
};

/// Rows that one transaction removes: about two milliseconds.
const CHUNK: usize = 500;
/// Blobs that one step removes.
const BLOBS: usize = 100;
/// Pages that one step gives back to the file system.
const PAGES: i64 = 256;
/// Steps of giving back that one call makes.
const STEPS: usize = 64;

impl Sqlite {
    /// Removes up to `limit` rows of deleted sessions, between batches.
    ///
    /// Records go first, then blobs, then the session's own row: whatever a crash interrupts is
    /// taken up again.
    pub(super) async fn purge_rows(&self, limit: usize) -> Result<usize, ReadError> {
        let mut gone = 0;
        while gone < limit {
            let next = self
                .readers
                .read(|connection| Ok(deleted(connection)?))
                .await?;
            let Some((no, session)) = next else { break };
            let room = (limit - gone).min(CHUNK);
            let rows = self.background(move |tx| records(tx, no, room)).await?;
            gone += rows;
            if rows == 0 {
                self.purge_bodies(session).await?;
                gone += self.background(move |tx| row(tx, no)).await?;
            }
        }
        if gone > 0 {
            self.shrink().await?;
        }
        Ok(gone)
    }

    async fn purge_bodies(&self, session: SessionId) -> Result<(), ReadError> {
        let bodies = &self.room.loader.bodies;
        while bodies.purge(session, BLOBS).await.map_err(Fault::from)? == BLOBS {}
        Ok(())
    }

    /// Gives free pages back.
    async fn shrink(&self) -> Result<(), WriteError> {
        for _ in 0..STEPS {
            if self.background(vacuum).await? < PAGES {
                break;
            }
        }
        Ok(())
    }
}

/// Returns a deleted session that is still there.
fn deleted(connection: &Connection) -> Result<Option<(i64, SessionId)>, Fault> {
    let found: Option<(i64, String)> = connection
        .prepare_cached("SELECT no, id FROM sessions WHERE deleted = 1 ORDER BY no LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    found.map(|(no, id)| Ok((no, session_id(&id)?))).transpose()
}

fn records(transaction: &Connection, no: i64, limit: usize) -> Written<usize> {
    let gone = transaction
        .prepare_cached(
            "DELETE FROM records WHERE rowid IN \
             (SELECT rowid FROM records WHERE session_no = ?1 LIMIT ?2)",
        )?
        .execute(params![no, bound(limit)])?;
    Ok(Ok(gone))
}

fn row(transaction: &Connection, no: i64) -> Written<usize> {
    let gone = transaction
        .prepare_cached("DELETE FROM sessions WHERE no = ?1 AND deleted = 1")?
        .execute([no])?;
    Ok(Ok(gone))
}

/// Gives some pages back; returns how many are free still.
fn vacuum(transaction: &Connection) -> Written<i64> {
    let mut statement = transaction.prepare_cached("PRAGMA incremental_vacuum(256)")?;
    // Each step frees one page; the statement has to be run to its end.
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(Ok(transaction.pragma_query_value(
        None,
        "freelist_count",
        |row| row.get(0),
    )?))
}
