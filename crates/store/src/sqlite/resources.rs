//! Statements for everything that is not a log.

use outlast_protocol::Micros;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

use super::{fault::Fault, listing::Conditions, secrets};
use crate::{
    Order, ReadError, Resource, ResourceKind, ResourcePage, ResourceQuery, WriteError,
    projection::kind as word,
    stored::{bound, integer, natural, raw},
};

/// What a write came to; the outer error is not this write's.
pub(super) type Written<T> = Result<Result<T, WriteError>, Fault>;

/// Stores revision 1.
pub(super) fn insert(transaction: &Connection, new: &Resource) -> Written<()> {
    if let Some(revision) = newest(transaction, new.kind, &new.id)? {
        return Ok(Err(WriteError::Moved {
            id: new.id.clone(),
            revision,
        }));
    }
    transaction
        .prepare_cached(
            "INSERT INTO resources \
             (kind, id, revision, created, archived, body, parent, unique_key) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            word(new.kind),
            new.id,
            integer(new.revision),
            new.created_at.0,
            new.archived_at.map(|at| at.0),
            new.body.get(),
            new.parent,
            new.unique_key,
        ])?;
    Ok(Ok(()))
}

/// Replaces the newest revision, which must be the one before; it stays readable.
pub(super) fn replace(transaction: &Connection, new: &Resource) -> Written<()> {
    if let Err(error) = expect(transaction, new, new.revision.checked_sub(1))? {
        return Ok(Err(error));
    }
    transaction
        .prepare_cached(
            "INSERT INTO revisions (kind, id, revision, archived, body) \
             SELECT kind, id, revision, archived, body FROM resources WHERE kind = ?1 AND id = ?2",
        )?
        .execute(params![word(new.kind), new.id])?;
    update(transaction, new)
}

/// Replaces the newest revision by another form of itself.
pub(super) fn amend(transaction: &Connection, new: &Resource) -> Written<()> {
    match expect(transaction, new, Some(new.revision))? {
        Ok(()) => update(transaction, new),
        Err(error) => Ok(Err(error)),
    }
}

/// Tells whether the newest revision is the one that is wanted.
pub(super) fn expect(transaction: &Connection, new: &Resource, wanted: Option<u64>) -> Written<()> {
    Ok(match newest(transaction, new.kind, &new.id)? {
        None => Err(WriteError::NotFound(new.id.clone())),
        Some(revision) if Some(revision) != wanted => Err(WriteError::Moved {
            id: new.id.clone(),
            revision,
        }),
        Some(_) => Ok(()),
    })
}

fn update(transaction: &Connection, new: &Resource) -> Written<()> {
    transaction
        .prepare_cached(
            "UPDATE resources SET revision = ?3, archived = ?4, body = ?5 \
             WHERE kind = ?1 AND id = ?2",
        )?
        .execute(params![
            word(new.kind),
            new.id,
            integer(new.revision),
            new.archived_at.map(|at| at.0),
            new.body.get(),
        ])?;
    Ok(Ok(()))
}

fn newest(connection: &Connection, kind: ResourceKind, id: &str) -> Result<Option<u64>, Fault> {
    let found = connection
        .prepare_cached("SELECT revision FROM resources WHERE kind = ?1 AND id = ?2")?
        .query_row(params![word(kind), id], |row| row.get(0))
        .optional()?;
    Ok(found.map(natural))
}

/// Removes an object that no session names.
pub(super) fn remove(transaction: &Connection, kind: ResourceKind, id: &str) -> Written<()> {
    let named = match kind {
        ResourceKind::Agent => "SELECT 1 FROM sessions WHERE agent = ?1 AND deleted = 0 LIMIT 1",
        ResourceKind::Environment => {
            "SELECT 1 FROM sessions WHERE environment = ?1 AND deleted = 0 LIMIT 1"
        }
        ResourceKind::Vault | ResourceKind::Credential => {
            secrets::purge(transaction, id)?;
            transaction
                .prepare_cached("DELETE FROM resources WHERE parent = ?1")?
                .execute([id])?;
            return gone(transaction, kind, id);
        }
    };
    if transaction.prepare_cached(named)?.exists([id])? {
        return Ok(Err(WriteError::Referenced(id.to_owned())));
    }
    gone(transaction, kind, id)
}

fn gone(transaction: &Connection, kind: ResourceKind, id: &str) -> Written<()> {
    let gone = transaction
        .prepare_cached("DELETE FROM resources WHERE kind = ?1 AND id = ?2")?
        .execute(params![word(kind), id])?;
    Ok(if gone == 0 {
        Err(WriteError::NotFound(id.to_owned()))
    } else {
        Ok(())
    })
}

const NEWEST: &str = "SELECT id, revision, created, archived, body, parent, unique_key \
                      FROM resources \
                      WHERE kind = ?1 AND id = ?2 AND (?3 IS NULL OR revision = ?3)";
const OLDER: &str = "SELECT v.id, v.revision, r.created, v.archived, v.body, r.parent, r.unique_key \
                     FROM revisions v \
                     JOIN resources r ON r.kind = v.kind AND r.id = v.id \
                     WHERE v.kind = ?1 AND v.id = ?2 AND v.revision = ?3";
const ALL: &str = "SELECT id, revision, created, archived, body, parent, unique_key \
                   FROM resources \
                   WHERE kind = ?1 AND id = ?2 AND revision < ?3 \
                   UNION ALL \
                   SELECT v.id, v.revision, r.created, v.archived, v.body, r.parent, r.unique_key \
                   FROM revisions v \
                   JOIN resources r ON r.kind = v.kind AND r.id = v.id \
                   WHERE v.kind = ?1 AND v.id = ?2 AND v.revision < ?3 \
                   ORDER BY revision DESC LIMIT ?4";

fn read(kind: ResourceKind, row: &Row<'_>) -> Result<Resource, Fault> {
    Ok(Resource {
        kind,
        id: row.get(0)?,
        revision: natural(row.get(1)?),
        created_at: Micros(row.get(2)?),
        archived_at: row.get::<_, Option<i64>>(3)?.map(Micros),
        body: raw(row.get(4)?)?,
        parent: row.get(5)?,
        unique_key: row.get(6)?,
    })
}

/// Returns an object at its newest revision or at one of those before.
pub(super) fn get(
    connection: &Connection,
    kind: ResourceKind,
    id: &str,
    revision: Option<u64>,
) -> Result<Resource, ReadError> {
    let values = params![word(kind), id, revision.map(integer)];
    for text in [NEWEST, OLDER] {
        let mut statement = connection.prepare_cached(text)?;
        let mut rows = statement.query(values)?;
        if let Some(row) = rows.next()? {
            return Ok(read(kind, row)?);
        }
    }
    Err(ReadError::NotFound(id.to_owned()))
}

/// Lists revisions, newest first.
pub(super) fn revisions(
    connection: &Connection,
    kind: ResourceKind,
    id: &str,
    before: Option<u64>,
    limit: usize,
) -> Result<ResourcePage, ReadError> {
    if newest(connection, kind, id)?.is_none() {
        return Err(ReadError::NotFound(id.to_owned()));
    }
    let mut statement = connection.prepare_cached(ALL)?;
    let before = before.map_or(i64::MAX, integer);
    let wanted = bound(limit.saturating_add(1));
    let rows = statement.query(params![word(kind), id, before, wanted])?;
    page(kind, rows, limit)
}

/// Lists objects by time of creation.
pub(super) fn list(
    connection: &Connection,
    query: &ResourceQuery,
) -> Result<ResourcePage, ReadError> {
    let (order, side) = match query.order {
        Order::Forwards => ("ORDER BY created, id", "(created, id) > (?, ?)"),
        Order::Backwards => ("ORDER BY created DESC, id DESC", "(created, id) < (?, ?)"),
    };
    let mut found = Conditions::default();
    found.one("kind = ?", word(query.kind));
    if let Some(parent) = &query.parent {
        found.one("parent = ?", parent.clone());
    }
    if !query.archived {
        found.fixed("archived IS NULL");
    }
    if let Some(at) = query.created_gte {
        found.one("created >= ?", at.0);
    }
    if let Some(at) = query.created_lte {
        found.one("created <= ?", at.0);
    }
    if let Some((created, id)) = &query.after {
        found.many(
            side.to_owned(),
            vec![Box::new(created.0), Box::new(id.clone())],
        );
    }
    let (condition, values) = found.finish(order, query.limit.saturating_add(1));
    let text = format!(
        "SELECT id, revision, created, archived, body, parent, unique_key FROM resources WHERE {condition}"
    );
    let mut statement = connection.prepare_cached(&text)?;
    let rows = statement.query(params_from_iter(values))?;
    page(query.kind, rows, query.limit)
}

fn page(
    kind: ResourceKind,
    mut rows: rusqlite::Rows<'_>,
    limit: usize,
) -> Result<ResourcePage, ReadError> {
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(read(kind, row)?);
    }
    let more = items.len() > limit;
    items.truncate(limit);
    Ok(ResourcePage { items, more })
}

/// Writes something small, durably.
pub(super) fn probe(connection: &Connection) -> Written<()> {
    connection
        .prepare_cached("UPDATE probes SET count = count + 1 WHERE no = 0")?
        .execute([])?;
    Ok(Ok(()))
}
