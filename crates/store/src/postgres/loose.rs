//! Statements for blobs that nothing names: being written, or to be removed.

use outlast_protocol::id::{FileId, ProcessId};

use super::{connect::Connection, fault::Fault};
use crate::{Blob, ReadError, stored::bound};

/// Notes a blob that a process is about to write.
pub(super) async fn begin(tx: &Connection, blob: &Blob, by: ProcessId) -> Result<(), Fault> {
    let text = "INSERT INTO loose_blobs (blob, process) VALUES ($1, $2) \
                ON CONFLICT (blob) DO UPDATE SET process = excluded.process";
    tx.run(text, &[&blob.to_string(), &by.to_string()]).await?;
    Ok(())
}

/// Takes the note of a blob that is about to be named; false if it was given up, or never begun.
pub(super) async fn take(tx: &Connection, blob: &Blob) -> Result<bool, Fault> {
    let text = "DELETE FROM loose_blobs WHERE blob = $1 AND process IS NOT NULL";
    Ok(tx.run(text, &[&blob.to_string()]).await? > 0)
}

/// Gives up a blob; false if something has named it. Whoever is naming it holds the row until that
/// is committed.
pub(super) async fn drop_blob(tx: &Connection, blob: &Blob) -> Result<bool, Fault> {
    let text = "UPDATE loose_blobs SET process = NULL WHERE blob = $1";
    Ok(tx.run(text, &[&blob.to_string()]).await? > 0)
}

/// Forgets a blob that was removed.
pub(super) async fn forget(tx: &Connection, blob: &Blob) -> Result<(), Fault> {
    let text = "DELETE FROM loose_blobs WHERE blob = $1 AND process IS NULL";
    tx.run(text, &[&blob.to_string()]).await?;
    Ok(())
}

/// Loosens the blob that a file named, unless another one names it.
///
/// It is loosened and then taken back where a file names it: of two who let go at the same time, the
/// second waits for the first at the blob's row, and then knows.
pub(super) async fn release(tx: &Connection, blob: Option<FileId>) -> Result<(), Fault> {
    let Some(file) = blob else { return Ok(()) };
    let name = file.to_string();
    let text = "INSERT INTO loose_blobs (blob, process) VALUES ($1, NULL) \
                ON CONFLICT (blob) DO UPDATE SET process = NULL";
    tx.run(text, &[&name]).await?;
    let text = "DELETE FROM loose_blobs WHERE blob = $1 \
                AND EXISTS (SELECT 1 FROM files WHERE blob = $1)";
    tx.run(text, &[&name]).await?;
    Ok(())
}

/// Lists blobs that are there to be removed, after what dead processes were writing was given up.
pub(super) async fn list(connection: &Connection, limit: usize) -> Result<Vec<Blob>, ReadError> {
    let text = "UPDATE loose_blobs l SET process = NULL WHERE l.process IS NOT NULL AND NOT EXISTS \
                (SELECT 1 FROM processes p WHERE p.id = l.process AND NOT p.dead)";
    connection.run(text, &[]).await?;
    let text = "SELECT blob FROM loose_blobs WHERE process IS NULL LIMIT $1";
    let mut blobs = Vec::new();
    for row in connection.rows(text, &[&bound(limit)]).await? {
        let text: &str = row.try_get(0)?;
        let blob = Blob::parse(text);
        blobs.push(blob.ok_or_else(|| Fault::Unreadable(format!("`{text}` names no blob")))?);
    }
    Ok(blobs)
}
