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

/// Takes the note of a blob that is about to be named; false if it was given up, or never begun.
pub(super) fn take(tx: &Connection, blob: &Blob) -> Result<bool, Fault> {
    let taken = tx
        .prepare_cached("DELETE FROM loose_blobs WHERE blob = ?1 AND process IS NOT NULL")?
        .execute([blob.to_string()])?;
    Ok(taken > 0)
}

/// Tells whether a blob can be named: somebody writes it, or has written it.
pub(super) fn is_begun(tx: &Connection, blob: &Blob) -> Result<bool, Fault> {
    Ok(tx
        .prepare_cached("SELECT 1 FROM loose_blobs WHERE blob = ?1 AND process IS NOT NULL")?
        .exists([blob.to_string()])?)
}

/// Gives up a blob; false if something has named it.
pub(super) fn drop_blob(tx: &Connection, blob: &Blob) -> Result<bool, Fault> {
    let noted = tx
        .prepare_cached("UPDATE loose_blobs SET process = NULL WHERE blob = ?1")?
        .execute([blob.to_string()])?;
    Ok(noted > 0)
}

/// Forgets a blob that was removed.
pub(super) fn forget(tx: &Connection, blob: &Blob) -> Result<(), Fault> {
    tx.prepare_cached("DELETE FROM loose_blobs WHERE blob = ?1 AND process IS NULL")?
        .execute([blob.to_string()])?;
    Ok(())
}

/// Loosens the blob that a file named, unless another one names it.
pub(super) fn release(tx: &Connection, blob: Option<FileId>) -> Result<(), Fault> {
    let Some(file) = blob else { return Ok(()) };
    let named = tx
        .prepare_cached("SELECT 1 FROM files WHERE blob = ?1 LIMIT 1")?
        .exists([file.to_string()])?;
    if named {
        return Ok(());
    }
    note(tx, &file.into(), None)
}

/// Takes the note of a checkpoint that a log has come to name, and loosens what it needs no more.
pub(super) fn checkpoints(
    tx: &Connection,
    before: Option<&State>,
    after: &State,
) -> Result<(), Fault> {
    // It was there a moment ago, in the same transaction.
    for new in Blob::needed_only_by(after, before) {
        take(tx, &new)?;
    }
    let Some(before) = before else { return Ok(()) };
    for old in Blob::needed_only_by(before, Some(after)) {
        note(tx, &old, None)?;
    }
    Ok(())
}

/// Whose writer is dead.
macro_rules! orphaned {
    () => {
        "process IS NOT NULL AND process NOT IN (SELECT id FROM processes WHERE dead = 0)"
    };
}

/// Tells whether dead processes were writing some.
pub(super) fn has_orphans(connection: &Connection) -> Result<bool, ReadError> {
    let text = concat!("SELECT 1 FROM loose_blobs WHERE ", orphaned!(), " LIMIT 1");
    Ok(connection.prepare_cached(text)?.exists([])?)
}

/// Gives up what dead processes were writing.
pub(super) fn give_up(tx: &Connection) -> Result<(), Fault> {
    let text = concat!("UPDATE loose_blobs SET process = NULL WHERE ", orphaned!());
    tx.prepare_cached(text)?.execute([])?;
    Ok(())
}

/// Lists blobs that are there to be removed.
pub(super) fn list(connection: &Connection, limit: usize) -> Result<Vec<Blob>, ReadError> {
    let text = "SELECT blob FROM loose_blobs WHERE process IS NULL LIMIT ?1";
    let mut statement = connection.prepare_cached(text)?;
    let mut rows = statement.query([bound(limit)])?;
    let mut blobs = Vec::new();
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        let blob = Blob::parse(&text);
        blobs.push(blob.ok_or_else(|| Fault::Unreadable(format!("`{text}` names no blob")))?);
    }
    Ok(blobs)
}
