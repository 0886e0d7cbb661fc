//! Taking bodies away, and whatever of them the file still has.

use std::{path::Path, time::Duration};

use outlast_blobs::Away;
use outlast_session::Erase;
use rusqlite::{Connection, OptionalExtension as _, params};
use tokio::time::sleep;

use super::{Sqlite, connect, fault::Fault, loose};
use crate::{Blob, ReadError, heads::Head, stored::integer};

/// How often the log is looked at before readers have kept it for too long.
const TRIES: u32 = 20;
/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// Takes bodies and salts out of their rows, loosens their blobs, and drops what was made of them.
pub(super) fn bodies(transaction: &Connection, head: &Head, wish: &Erase) -> Result<(), Fault> {
    for erasure in &wish.erasures {
        let position = integer(erasure.position);
        let away: Option<[u8; 32]> = transaction
            .prepare_cached(
                "SELECT digest FROM records WHERE session_no = ?1 AND position = ?2 \
                 AND blob IS NOT NULL",
            )?
            .query_row(params![head.no, position], |row| row.get(0))
            .optional()?;
        if let Some(digest) = away {
            loose::note(transaction, &Blob::of_body(head.state.id, &digest), None)?;
        }
        transaction
            .prepare_cached(
                "UPDATE records SET body = ?3, salt = NULL, blob = NULL \
                 WHERE session_no = ?1 AND position = ?2",
            )?
            .execute(params![head.no, position, erasure.remains.get()])?;
    }
    transaction
        .prepare_cached("DELETE FROM snapshots WHERE session_no = ?1")?
        .execute([head.no])?;
    Ok(())
}

impl Sqlite {
    /// Copies the write-ahead log into the file, where what was erased is zeros, and empties it.
    pub(super) async fn scrub_file(&self) -> Result<(), ReadError> {
        for _ in 0..TRIES {
            let path = self.readers.path().to_owned();
            let emptied = tokio::task::spawn_blocking(move || truncate(&path)).await;
            let emptied = emptied.map_err(|error| ReadError::Unavailable(Away::other(error)))?;
            if emptied? {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
        let words =
            "somebody reads the database all the time, so its log still has what was erased";
        Err(ReadError::Unavailable(Away::other(words)))
    }
}

/// Empties the write-ahead log; tells whether that was possible.
///
/// By a connection of its own: whoever writes meanwhile waits, for as long as others read what
/// the log has.
fn truncate(path: &Path) -> Result<bool, Fault> {
    let connection = connect::scrubber(path)?;
    let busy: i64 =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    Ok(busy == 0)
}
