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

/// Forgets that a blob is loose.
pub(super) async fn forget(tx: &Connection, blob: &Blob) -> Result<(), Fault> {
    let text = "DELETE FROM loose_blobs WHERE blob = $1";
    tx.run(text, &[&blob.to_string()]).await?;
    Ok(())
}

/// Loosens the blob of a file unless another file names it.
pub(super) async fn release(tx: &Connection, blob: Option<FileId>) -> Result<(), Fault> {
    match blob {
        Some(file) => drop_blob(tx, &file.into()).await,
        None => Ok(()),
    }
}

/// Loosens a blob that nothing names.
///
/// That of a file is loosened and then taken back where a file names it: of two who let go at the
/// same time, the second waits for the first at the blob's row, and then knows. Whoever names a
/// checkpoint has the session's row, so that is waited for.
pub(super) async fn drop_blob(tx: &Connection, blob: &Blob) -> Result<(), Fault> {
    let name = blob.to_string();
    if let Blob::Session { session, .. } = blob {
        let text = "SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE";
        tx.rows(text, &[&session.to_string()]).await?;
    }
    let text = "INSERT INTO loose_blobs (blob, process) VALUES ($1, NULL) \
                ON CONFLICT (blob) DO UPDATE SET process = NULL";
    tx.run(text, &[&name]).await?;
    match blob {
        Blob::File(_) => {
            let text = "DELETE FROM loose_blobs WHERE blob = $1 \
                        AND EXISTS (SELECT 1 FROM files WHERE blob = $1)";
            tx.run(text, &[&name]).await?;
        }
        Blob::Session { session, key } => {
            let text = "DELETE FROM loose_blobs WHERE blob = $1 AND EXISTS \
                        (SELECT 1 FROM sessions WHERE id = $2 AND NOT deleted \
                        AND archived IS NULL AND state::jsonb -> 'checkpoint' ->> 'blob' = $3)";
            tx.run(text, &[&name, &session.to_string(), key]).await?;
        }
    }
    Ok(())
}

/// Lists loose blobs of nobody who lives.
pub(super) async fn list(connection: &Connection, limit: usize) -> Result<Vec<Blob>, ReadError> {
    let text = "SELECT blob FROM loose_blobs l WHERE process IS NULL OR NOT EXISTS \
                (SELECT 1 FROM processes p WHERE p.id = l.process AND NOT p.dead) LIMIT $1";
    let mut blobs = Vec::new();
    for row in connection.rows(text, &[&bound(limit)]).await? {
        let text: &str = row.try_get(0)?;
        let blob = Blob::parse(text);
        blobs.push(blob.ok_or_else(|| Fault::Unreadable(format!("`{text}` names no blob")))?);
    }
    Ok(blobs)
}
