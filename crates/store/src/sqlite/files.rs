//! Statements for files and their blobs.

use outlast_protocol::{
    Micros,
    id::{FileId, ResourceId, SessionId},
};
use outlast_session::{State, body::Mounted};
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

use super::{fault::Fault, listing::Conditions, loose, resources::Written};
use crate::{
    FilePage, FileQuery, Order, Output, ReadError, Receipt, StoredFile, WriteError,
    files::given_up,
    sqlite::receipts,
    stored::{bound, file_id, integer, natural, session_id},
};

/// Files that end in one transaction.
pub(super) const CHUNK: usize = 500;

/// The columns that [`read`] wants, in its order.
const COLUMNS: &str = "id, created, name, mime, bytes, downloadable, expires, scope, mounted, path, \
                       version, blob";

fn read(row: &Row<'_>) -> Result<StoredFile, Fault> {
    let scope: Option<String> = row.get(7)?;
    let path: Option<String> = row.get(9)?;
    let version: Option<String> = row.get(10)?;
    let blob: Option<String> = row.get(11)?;
    Ok(StoredFile {
        id: file_id(&row.get::<_, String>(0)?)?,
        created_at: Micros(row.get(1)?),
        name: row.get(2)?,
        mime_type: row.get(3)?,
        bytes: natural(row.get(4)?),
        downloadable: row.get(5)?,
        expires_at: row.get::<_, Option<i64>>(6)?.map(Micros),
        scope: scope.as_deref().map(session_id).transpose()?,
        mounted: row.get(8)?,
        output: path
            .zip(version)
            .map(|(path, version)| Output { path, version }),
        blob: blob.as_deref().map(file_id).transpose()?,
    })
}

/// Stores a new file.
pub(super) fn insert(tx: &Connection, new: &StoredFile, receipt: Option<&Receipt>) -> Written<()> {
    if receipts::answered(tx, receipt)? {
        return Ok(Err(WriteError::Answered));
    }
    if let Some(error) = taken(tx, new)? {
        return Ok(Err(error));
    }
    put(tx, new)?;
    if let Some(receipt) = receipt {
        receipts::put(tx, receipt)?;
    }
    Ok(Ok(()))
}

/// Takes the note of the blob that a new file is to name; says why that cannot be.
fn taken(tx: &Connection, new: &StoredFile) -> Result<Option<WriteError>, Fault> {
    let Some(blob) = new.blob else {
        return Ok(None);
    };
    let taken = loose::take(tx, &blob.into())?;
    Ok((!taken).then(|| given_up(blob)))
}

/// Writes a row over an older one of its id.
fn put(tx: &Connection, file: &StoredFile) -> Result<(), Fault> {
    let (path, version) = match &file.output {
        Some(Output { path, version }) => (Some(path), Some(version)),
        None => (None, None),
    };
    tx.prepare_cached(
        "INSERT OR REPLACE INTO files (id, created, name, mime, bytes, downloadable, expires, \
         scope, mounted, path, version, blob) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        file.id.to_string(),
        file.created_at.0,
        file.name,
        file.mime_type,
        integer(file.bytes),
        file.downloadable,
        file.expires_at.map(|at| at.0),
        file.scope.map(|id| id.to_string()),
        file.mounted,
        path,
        version,
        file.blob.map(|id| id.to_string()),
    ])?;
    Ok(())
}

/// Stores an output over the older one of its path.
pub(super) fn publish(tx: &Connection, new: &StoredFile) -> Written<Option<FileId>> {
    let scope = new.scope.map(|id| id.to_string()).unwrap_or_default();
    let lives = tx
        .prepare_cached("SELECT 1 FROM sessions WHERE id = ?1 AND deleted = 0")?
        .exists([&scope])?;
    if !lives {
        return Ok(Err(WriteError::NotFound(scope)));
    }
    if let Some(error) = taken(tx, new)? {
        return Ok(Err(error));
    }
    let path = new.output.as_ref().map(|output| output.path.as_str());
    let old = one(tx, "scope = ?1 AND path = ?2", params![scope, path])?;
    let Some(old) = old else {
        put(tx, new)?;
        return Ok(Ok(Some(new.id)));
    };
    if old.blob.is_none() && old.output == new.output {
        loose::release(tx, new.blob)?;
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
    put(tx, &next)?;
    if old.blob != new.blob {
        loose::release(tx, old.blob)?;
    }
    Ok(Ok(Some(next.id)))
}

/// Reads every row that a statement gives.
fn all(
    connection: &Connection,
    text: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<StoredFile>, Fault> {
    let mut statement = connection.prepare_cached(text)?;
    let mut rows = statement.query(values)?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(read(row)?);
    }
    Ok(items)
}

fn one(
    connection: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
) -> Result<Option<StoredFile>, Fault> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM files WHERE {condition}"))?
        .query_row(values, |row| Ok(read(row)))
        .optional()?
        .transpose()
}

/// Returns a file that is there, or was until its end.
pub(super) fn get(connection: &Connection, id: FileId) -> Result<StoredFile, ReadError> {
    let found = one(connection, "id = ?1", [id.to_string()])?;
    let known = found.filter(|file| file.blob.is_some() || file.expires_at.is_some());
    known.ok_or_else(|| ReadError::NotFound(id.to_string()))
}

/// Returns the statement of a list, and its values.
fn statement(query: &FileQuery) -> (String, Vec<Box<dyn rusqlite::ToSql>>) {
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
        let marks = vec!["?"; ids.len()].join(", ");
        let values = ids.iter().map(|id| Box::new(id.to_string()) as Box<_>);
        found.many(format!("id IN ({marks})"), values.collect());
    }
    if let Some((created, id)) = query.after {
        let values: Vec<Box<dyn rusqlite::ToSql>> =
            vec![Box::new(created.0), Box::new(id.to_string())];
        found.many(side.to_owned(), values);
    }
    let (condition, values) = found.finish(order, query.limit.saturating_add(1));
    (
        format!("SELECT {COLUMNS} FROM files WHERE {condition}"),
        values,
    )
}

/// Lists files.
pub(super) fn list(connection: &Connection, query: &FileQuery) -> Result<FilePage, ReadError> {
    let (text, values) = statement(query);
    let mut items = all(connection, &text, params_from_iter(values))?;
    let more = items.len() > query.limit;
    items.truncate(query.limit);
    Ok(FilePage { items, more })
}

/// Returns the outputs of a session, removed ones too.
pub(super) fn outputs(
    connection: &Connection,
    session: SessionId,
) -> Result<Vec<StoredFile>, ReadError> {
    let text = format!("SELECT {COLUMNS} FROM files WHERE scope = ?1 AND path IS NOT NULL");
    Ok(all(connection, &text, [session.to_string()])?)
}

/// Removes a file; of an output a row stays that remembers its version.
pub(super) fn remove(tx: &Connection, id: FileId) -> Written<()> {
    let found = one(tx, "id = ?1 AND blob IS NOT NULL", [id.to_string()])?;
    let Some(file) = found else {
        return Ok(Err(WriteError::NotFound(id.to_string())));
    };
    if file.mounted {
        return Ok(Err(WriteError::Referenced(id.to_string())));
    }
    let blob = file.blob;
    if file.output.is_some() {
        put(tx, &StoredFile { blob: None, ..file })?;
    } else {
        delete(tx, id)?;
    }
    loose::release(tx, blob)?;
    Ok(Ok(()))
}

fn delete(tx: &Connection, id: FileId) -> Result<(), Fault> {
    tx.prepare_cached("DELETE FROM files WHERE id = ?1")?
        .execute([id.to_string()])?;
    Ok(())
}

/// Ends files whose time is over.
pub(super) fn expire(tx: &Connection, now: Micros, forgotten: Micros) -> Written<usize> {
    let text = format!(
        "SELECT {COLUMNS} FROM files WHERE expires IS NOT NULL AND expires <= ?1 \
         AND (blob IS NOT NULL OR expires <= ?2) LIMIT ?3"
    );
    let ended = all(tx, &text, params![now.0, forgotten.0, bound(CHUNK)])?;
    let count = ended.len();
    for file in ended {
        let blob = file.blob;
        if file.expires_at.is_some_and(|end| end <= forgotten) {
            delete(tx, file.id)?;
        } else {
            put(tx, &StoredFile { blob: None, ..file })?;
        }
        loose::release(tx, blob)?;
    }
    Ok(Ok(count))
}

/// Tells which source of newly mounted files cannot be copied.
pub(super) fn missing(
    tx: &Connection,
    mounted: &[Mounted],
    now: Micros,
) -> Result<Option<FileId>, Fault> {
    for new in mounted {
        let source = one(tx, "id = ?1 AND blob IS NOT NULL", [new.source.to_string()])?;
        if source.is_none_or(|source| source.is_past(now)) {
            return Ok(Some(new.source));
        }
    }
    Ok(None)
}

/// Copies files that were mounted, and removes those that are not any more.
pub(super) fn mounts(tx: &Connection, before: Option<&State>, after: &State) -> Result<(), Fault> {
    let known = before.map_or(&[][..], mounted_in);
    let now = mounted_in(after);
    if after.deleted {
        return drop_scope(tx, after.id);
    }
    let lacks = |list: &[Mounted], id: ResourceId| list.iter().all(|other| other.id != id);
    for new in now.iter().filter(|new| lacks(known, new.id)) {
        let source = one(tx, "id = ?1", [new.source.to_string()])?;
        // Checked a moment ago in the same transaction.
        let source = source.ok_or_else(|| Fault::Bug(format!("`{}` is gone", new.source)))?;
        put(tx, &source.mounted_in(after.id, new))?;
    }
    for old in known.iter().filter(|old| lacks(now, old.id)) {
        let copy = one(tx, "id = ?1", [old.file.to_string()])?;
        delete(tx, old.file)?;
        loose::release(tx, copy.and_then(|copy| copy.blob))?;
    }
    Ok(())
}

fn mounted_in(state: &State) -> &[Mounted] {
    let config = state.config.as_deref();
    config.map_or(&[], |config| &config.resources)
}

/// Removes all files of a session.
fn drop_scope(tx: &Connection, session: SessionId) -> Result<(), Fault> {
    let scope = session.to_string();
    let mut blobs = Vec::new();
    {
        let mut statement = tx.prepare_cached(
            "SELECT DISTINCT blob FROM files WHERE scope = ?1 AND blob IS NOT NULL",
        )?;
        let mut rows = statement.query([&scope])?;
        while let Some(row) = rows.next()? {
            blobs.push(file_id(&row.get::<_, String>(0)?)?);
        }
    }
    tx.prepare_cached("DELETE FROM files WHERE scope = ?1")?
        .execute([&scope])?;
    for blob in blobs {
        loose::release(tx, Some(blob))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use outlast_testkit::random::Constant;

    use super::*;
    use crate::sqlite::connect;

    #[test]
    fn pages_walk_along_an_index() {
        let dir = tempfile::tempdir().unwrap();
        let connection = connect::writer(&dir.path().join("a.db")).unwrap();
        let session = SessionId::mint(Micros(1), &Constant(0));
        for (scope, index) in [(None, "files_all"), (Some(session), "files_scope")] {
            for order in [Order::Forwards, Order::Backwards] {
                for after in [
                    None,
                    Some((Micros(1), FileId::mint(Micros(1), &Constant(0)))),
                ] {
                    let query = FileQuery {
                        scope,
                        ids: None,
                        now: Micros(1),
                        order,
                        after,
                        limit: 20,
                    };
                    let plan = connect::plan(&connection, &statement(&query).0);
                    let walks = plan.contains(&format!("USING INDEX {index}"));
                    assert!(walks && !plan.contains("TEMP B-TREE"), "{query:?}: {plan}");
                }
            }
        }
    }
}
