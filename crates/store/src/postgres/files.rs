//! Statements for files and their blobs.

use outlast_protocol::{
    Micros,
    id::{FileId, SessionId},
};
use tokio_postgres::Row;

use super::{
    conditions::Conditions,
    connect::{Connection, Value},
    fault::Fault,
    loose, receipts,
    resources::Written,
};
use crate::{
    FilePage, FileQuery, Order, Output, ReadError, Receipt, StoredFile, WriteError,
    files::given_up,
    stored::{bound, file_id, integer, natural, session_id},
};

/// Files that end in one transaction.
pub(super) const CHUNK: usize = 500;

/// The columns that [`read`] wants, in its order.
macro_rules! columns {
    () => {
        "id, created, name, mime, bytes, downloadable, expires, scope, mounted, path, version, blob"
    };
}

fn read(row: &Row) -> Result<StoredFile, Fault> {
    let scope: Option<&str> = row.try_get(7)?;
    let path: Option<String> = row.try_get(9)?;
    let version: Option<String> = row.try_get(10)?;
    let blob: Option<&str> = row.try_get(11)?;
    Ok(StoredFile {
        id: file_id(row.try_get(0)?)?,
        created_at: Micros(row.try_get(1)?),
        name: row.try_get(2)?,
        mime_type: row.try_get(3)?,
        bytes: natural(row.try_get(4)?),
        downloadable: row.try_get(5)?,
        expires_at: row.try_get::<_, Option<i64>>(6)?.map(Micros),
        scope: scope.map(session_id).transpose()?,
        mounted: row.try_get(8)?,
        output: path
            .zip(version)
            .map(|(path, version)| Output { path, version }),
        blob: blob.map(file_id).transpose()?,
    })
}

/// Stores a new file.
pub(super) async fn insert(
    tx: &Connection,
    new: &StoredFile,
    receipt: Option<&Receipt>,
) -> Written<()> {
    if receipts::answered(tx, receipt).await? {
        return Ok(Err(WriteError::Answered));
    }
    if let Some(error) = taken(tx, new).await? {
        return Ok(Err(error));
    }
    put(tx, new).await?;
    receipts::put(tx, receipt).await?;
    Ok(Ok(()))
}

/// Takes the note of the blob that a new file is to name; says why that cannot be.
async fn taken(tx: &Connection, new: &StoredFile) -> Result<Option<WriteError>, Fault> {
    let Some(blob) = new.blob else {
        return Ok(None);
    };
    let taken = loose::take(tx, &blob.into()).await?;
    Ok((!taken).then(|| given_up(blob)))
}

/// Writes a row over an older one of its id, or of its path.
async fn put(tx: &Connection, file: &StoredFile) -> Result<(), Fault> {
    let (path, version) = match &file.output {
        Some(Output { path, version }) => (Some(path), Some(version)),
        None => (None, None),
    };
    let scope = file.scope.map(|id| id.to_string());
    if let Some(path) = path {
        let text = "DELETE FROM files WHERE scope = $1 AND path = $2 AND id <> $3";
        tx.run(text, &[&scope, path, &file.id.to_string()]).await?;
    }
    let text = "INSERT INTO files (id, created, name, mime, bytes, downloadable, expires, scope, \
                mounted, path, version, blob) \
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) \
                ON CONFLICT (id) DO UPDATE SET created = excluded.created, name = excluded.name, \
                mime = excluded.mime, bytes = excluded.bytes, \
                downloadable = excluded.downloadable, expires = excluded.expires, \
                scope = excluded.scope, mounted = excluded.mounted, path = excluded.path, \
                version = excluded.version, blob = excluded.blob";
    let values: [Value<'_>; 12] = [
        &file.id.to_string(),
        &file.created_at.0,
        &file.name,
        &file.mime_type,
        &integer(file.bytes),
        &file.downloadable,
        &file.expires_at.map(|at| at.0),
        &scope,
        &file.mounted,
        &path,
        &version,
        &file.blob.map(|id| id.to_string()),
    ];
    tx.run(text, &values).await?;
    Ok(())
}

/// Stores an output over the older one of its path.
///
/// The session's row is held, so that it is not deleted meanwhile and no other version comes
/// between.
pub(super) async fn publish(tx: &Connection, new: &StoredFile) -> Written<Option<FileId>> {
    let scope = new.scope.map(|id| id.to_string()).unwrap_or_default();
    let lives = "SELECT 1 FROM sessions WHERE id = $1 AND NOT deleted FOR UPDATE";
    if !tx.exists(lives, &[&scope]).await? {
        return Ok(Err(WriteError::NotFound(scope)));
    }
    if let Some(error) = taken(tx, new).await? {
        return Ok(Err(error));
    }
    let path = new.output.as_ref().map(|output| output.path.as_str());
    let text = concat!(
        "SELECT ",
        columns!(),
        " FROM files WHERE scope = $1 AND path = $2"
    );
    let old = tx.row(text, &[&scope, &path]).await?;
    let Some(old) = old.as_ref().map(read).transpose()? else {
        put(tx, new).await?;
        return Ok(Ok(Some(new.id)));
    };
    if old.blob.is_none() && old.output == new.output {
        loose::release(tx, new.blob).await?;
        return Ok(Ok(None));
    }
    // One that was removed is not brought back: what is written there now is another file.
    let next = if old.blob.is_some() {
        StoredFile {
            id: old.id,
            created_at: old.created_at,
            ..new.clone()
        }
    } else {
        new.clone()
    };
    put(tx, &next).await?;
    if old.blob != new.blob {
        loose::release(tx, old.blob).await?;
    }
    Ok(Ok(Some(next.id)))
}

/// Returns a file that is there, or was until its end.
pub(super) async fn get(connection: &Connection, id: FileId) -> Result<StoredFile, ReadError> {
    let text = concat!("SELECT ", columns!(), " FROM files WHERE id = $1");
    let found = connection.row(text, &[&id.to_string()]).await?;
    let found = found.as_ref().map(read).transpose()?;
    let known = found.filter(|file| file.blob.is_some() || file.expires_at.is_some());
    known.ok_or_else(|| ReadError::NotFound(id.to_string()))
}

/// Lists files.
pub(super) async fn list(
    connection: &Connection,
    query: &FileQuery,
) -> Result<FilePage, ReadError> {
    let (order, side) = match query.order {
        Order::Forwards => ("ORDER BY created, id", "(created, id) > (?, ?)"),
        Order::Backwards => ("ORDER BY created DESC, id DESC", "(created, id) < (?, ?)"),
    };
    let mut found = Conditions::default();
    found.fixed("blob IS NOT NULL");
    if let Some(scope) = query.scope {
        found.one("scope = ?", scope.to_string());
    }
    found.one("(expires IS NULL OR expires > ?)", query.now.0);
    if let Some(ids) = &query.ids {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        found.one("id = ANY(?)", ids);
    }
    if let Some((created, id)) = query.after {
        found.two(side, created.0, id.to_string());
    }
    let (condition, values) = found.finish(order, query.limit.saturating_add(1));
    let text = format!(
        concat!("SELECT ", columns!(), " FROM files WHERE {}"),
        condition
    );
    let rows = connection.rows(&text, &values.all()).await?;
    let items = rows.iter().take(query.limit).map(read);
    Ok(FilePage {
        items: items.collect::<Result<_, _>>()?,
        more: rows.len() > query.limit,
    })
}

/// Returns the outputs of a session, removed ones too.
pub(super) async fn outputs(
    connection: &Connection,
    session: SessionId,
) -> Result<Vec<StoredFile>, ReadError> {
    let text = concat!(
        "SELECT ",
        columns!(),
        " FROM files WHERE scope = $1 AND path IS NOT NULL"
    );
    let rows = connection.rows(text, &[&session.to_string()]).await?;
    Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
}

/// Removes a file; of an output a row stays that remembers its version.
pub(super) async fn remove(tx: &Connection, id: FileId) -> Written<()> {
    let text = concat!(
        "SELECT ",
        columns!(),
        " FROM files WHERE id = $1 AND blob IS NOT NULL FOR UPDATE"
    );
    let found = tx.row(text, &[&id.to_string()]).await?;
    let Some(file) = found.as_ref().map(read).transpose()? else {
        return Ok(Err(WriteError::NotFound(id.to_string())));
    };
    if file.mounted {
        return Ok(Err(WriteError::Referenced(id.to_string())));
    }
    let blob = file.blob;
    if file.output.is_some() {
        put(tx, &StoredFile { blob: None, ..file }).await?;
    } else {
        delete(tx, id).await?;
    }
    loose::release(tx, blob).await?;
    Ok(Ok(()))
}

async fn delete(tx: &Connection, id: FileId) -> Result<(), Fault> {
    let text = "DELETE FROM files WHERE id = $1";
    tx.run(text, &[&id.to_string()]).await?;
    Ok(())
}

/// Ends files whose time is over.
pub(super) async fn expire(tx: &Connection, now: Micros, forgotten: Micros) -> Written<usize> {
    let text = concat!(
        "SELECT ",
        columns!(),
        " FROM files WHERE expires IS NOT NULL AND expires <= $1 \
         AND (blob IS NOT NULL OR expires <= $2) LIMIT $3 FOR UPDATE SKIP LOCKED"
    );
    let values: [Value<'_>; 3] = [&now.0, &forgotten.0, &bound(CHUNK)];
    let ended = tx.rows(text, &values).await?;
    for row in &ended {
        let file = read(row)?;
        let blob = file.blob;
        if file.expires_at.is_some_and(|end| end <= forgotten) {
            delete(tx, file.id).await?;
        } else {
            put(tx, &StoredFile { blob: None, ..file }).await?;
        }
        loose::release(tx, blob).await?;
    }
    Ok(Ok(ended.len()))
}
