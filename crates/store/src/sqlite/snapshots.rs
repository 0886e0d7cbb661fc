//! Contexts that harnesses keep: caches, every one of them.

use outlast_protocol::id::SessionId;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{read::tail, resources::Written};
use crate::{
    ReadError, Snapshot, WriteError,
    stored::{integer, natural},
};

/// Keeps a snapshot, unless a newer one is there.
pub(super) fn save(transaction: &Connection, snapshot: &Snapshot) -> Written<()> {
    let session = snapshot.session.to_string();
    let no: Option<i64> = transaction
        .prepare_cached("SELECT no FROM sessions WHERE id = ?1 AND deleted = 0")?
        .query_row([&session], |row| row.get(0))
        .optional()?;
    let Some(no) = no else {
        return Ok(Err(WriteError::NotFound(session)));
    };
    transaction
        .prepare_cached(
            "INSERT INTO snapshots (session_no, thread, name, position, body) \
             SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS (SELECT 1 FROM records r \
             WHERE r.session_no = ?1 AND r.position > ?4 AND r.kind = 'x.erased') \
             ON CONFLICT DO UPDATE \
             SET position = excluded.position, body = excluded.body \
             WHERE excluded.position >= position",
        )?
        .execute(params![
            no,
            snapshot.thread,
            snapshot.name,
            integer(snapshot.position),
            snapshot.body,
        ])?;
    Ok(Ok(()))
}

/// Returns the newest snapshot under a name.
pub(super) fn newest(
    connection: &Connection,
    session: SessionId,
    thread: u32,
    name: &str,
) -> Result<Option<Snapshot>, ReadError> {
    let (no, _) = tail(connection, session)?;
    let found = connection
        .prepare_cached(
            "SELECT position, body FROM snapshots \
             WHERE session_no = ?1 AND thread = ?2 AND name = ?3",
        )?
        .query_row(params![no, thread, name], |row| {
            let (position, name) = (natural(row.get(0)?), name.to_owned());
            Ok(Snapshot {
                session,
                thread,
                name,
                position,
                body: row.get(1)?,
            })
        })
        .optional()?;
    Ok(found)
}
