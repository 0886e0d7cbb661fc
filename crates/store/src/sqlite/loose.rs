//! Statements for blobs that nothing names: being written, or to be removed.

use outlast_protocol::id::{FileId, ProcessId};
use outlast_session::State;
use rusqlite::{Connection, params};

use super::fault::Fault;
use crate::{Blob, ReadError, stored::bound};

/// Notes a blob that is about to be written, or, by nobody, that is to be removed.
pub(super) fn note(tx: &Connection, blob: &Blob, by: Option<ProcessId>) -> Result<(), Fault> {
    tx.prepare_cached("INSERT OR REPLACE INTO loose_blobs (blob, process) VALUES (?1, ?2)")?
        .execute(params![blob.to_string(), by.map(|id| id.to_string())])?;
    Ok(())
}

/// Forgets that a blob is loose.
pub(super) fn forget(tx: &Connection, blob: &Blob) -> Result<(), Fault> {
    tx.prepare_cached("DELETE FROM loose_blobs WHERE blob = ?1")?
        .execute([blob.to_string()])?;
    Ok(())
}

/// Loosens the blob of a file unless another file names it.
pub(super) fn release(tx: &Connection, blob: Option<FileId>) -> Result<(), Fault> {
    match blob {
        Some(file) => drop_blob(tx, &file.into()),
        None => Ok(()),
    }
}

/// Loosens a blob that nothing names.
pub(super) fn drop_blob(tx: &Connection, blob: &Blob) -> Result<(), Fault> {
    if is_named(tx, blob)? {
        return Ok(());
    }
    note(tx, blob, None)
}

fn is_named(tx: &Connection, blob: &Blob) -> Result<bool, Fault> {
    let named = match blob {
        Blob::File(file) => tx
            .prepare_cached("SELECT 1 FROM files WHERE blob = ?1 LIMIT 1")?
            .exists([file.to_string()])?,
        Blob::Session { session, key } => tx
            .prepare_cached(
                "SELECT 1 FROM sessions WHERE id = ?1 AND deleted = 0 AND archived IS NULL \
                 AND json_extract(state, '$.checkpoint.blob') = ?2",
            )?
            .exists(params![session.to_string(), key])?,
    };
    Ok(named)
}

/// Ends the note of a checkpoint that a log has come to name, and loosens the one before.
pub(super) fn checkpoints(
    tx: &Connection,
    before: Option<&State>,
    after: &State,
) -> Result<(), Fault> {
    let (old, new) = (before.and_then(Blob::needed_by), Blob::needed_by(after));
    if old == new {
        return Ok(());
    }
    if let Some(new) = new {
        forget(tx, &new)?;
    }
    match old {
        Some(old) => note(tx, &old, None),
        None => Ok(()),
    }
}

/// Lists loose blobs of nobody who lives.
pub(super) fn list(connection: &Connection, limit: usize) -> Result<Vec<Blob>, ReadError> {
    let mut statement = connection.prepare_cached(
        "SELECT blob FROM loose_blobs WHERE process IS NULL \
         OR process NOT IN (SELECT id FROM processes WHERE dead = 0) LIMIT ?1",
    )?;
    let mut rows = statement.query([bound(limit)])?;
    let mut blobs = Vec::new();
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        let blob = Blob::parse(&text);
        blobs.push(blob.ok_or_else(|| Fault::Unreadable(format!("`{text}` names no blob")))?);
    }
    Ok(blobs)
}
