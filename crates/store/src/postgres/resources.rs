//! Statements for everything that is not a log.

use outlast_protocol::Micros;
use tokio_postgres::Row;

use super::{conditions::Conditions, connect::Connection, fault::Fault, receipts, secrets};
use crate::{
    Order, ReadError, Receipt, Resource, ResourceKind, ResourcePage, ResourceQuery, WriteError,
    projection::kind as word,
    stored::{bound, integer, natural, raw},
};

/// What a write came to; the outer error is not this write's.
pub(super) type Written<T> = Result<Result<T, WriteError>, Fault>;

/// What becomes of the revision before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Former {
    /// It stays readable.
    Kept,
    /// It was the same one in another form.
    Replaced,
}

/// Stores revision 1.
pub(super) async fn insert(
    tx: &Connection,
    new: &Resource,
    receipt: Option<&Receipt>,
) -> Written<()> {
    if receipts::answered(tx, receipt).await? {
        return Ok(Err(WriteError::Answered));
    }
    let text = "INSERT INTO resources \
                (kind, id, revision, created, archived, body, parent, unique_key) \
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (kind, id) DO NOTHING";
    let archived = new.archived_at.map(|at| at.0);
    let (kind, revision) = (word(new.kind), integer(new.revision));
    let values: [super::connect::Value<'_>; 8] = [
        &kind,
        &new.id,
        &revision,
        &new.created_at.0,
        &archived,
        &new.body.get(),
        &new.parent,
        &new.unique_key,
    ];
    if tx.run(text, &values).await? == 0 {
        let revision = newest(tx, new.kind, &new.id).await?.unwrap_or(0);
        let id = new.id.clone();
        return Ok(Err(WriteError::Moved { id, revision }));
    }
    receipts::put(tx, receipt).await?;
    Ok(Ok(()))
}

/// Replaces the newest revision, which must be the one that was expected.
pub(super) async fn replace(
    tx: &Connection,
    new: &Resource,
    former: Former,
    receipt: Option<&Receipt>,
) -> Written<()> {
    if receipts::answered(tx, receipt).await? {
        return Ok(Err(WriteError::Answered));
    }
    let wanted = match former {
        Former::Kept => new.revision.checked_sub(1),
        Former::Replaced => Some(new.revision),
    };
    match newest(tx, new.kind, &new.id).await? {
        None => return Ok(Err(WriteError::NotFound(new.id.clone()))),
        Some(revision) if Some(revision) != wanted => {
            let id = new.id.clone();
            return Ok(Err(WriteError::Moved { id, revision }));
        }
        Some(_) => {}
    }
    let kind = word(new.kind);
    if former == Former::Kept {
        let text = "INSERT INTO revisions (kind, id, revision, archived, body) \
                    SELECT kind, id, revision, archived, body FROM resources \
                    WHERE kind = $1 AND id = $2";
        tx.run(text, &[&kind, &new.id]).await?;
    }
    let text = "UPDATE resources SET revision = $3, archived = $4, body = $5 \
                WHERE kind = $1 AND id = $2";
    let archived = new.archived_at.map(|at| at.0);
    let revision = integer(new.revision);
    let values: [super::connect::Value<'_>; 5] =
        [&kind, &new.id, &revision, &archived, &new.body.get()];
    tx.run(text, &values).await?;
    receipts::put(tx, receipt).await?;
    Ok(Ok(()))
}

/// Returns the newest revision, and keeps it from being another one until the transaction ends.
pub(super) async fn newest(
    tx: &Connection,
    kind: ResourceKind,
    id: &str,
) -> Result<Option<u64>, Fault> {
    let text = "SELECT revision FROM resources WHERE kind = $1 AND id = $2 FOR UPDATE";
    let found = tx.row(text, &[&word(kind), &id]).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?.map(natural))
}

/// Removes an object that no session names.
///
/// Whoever makes a session holds what that names, so the row is taken first and then looked at.
pub(super) async fn remove(tx: &Connection, kind: ResourceKind, id: &str) -> Written<()> {
    if newest(tx, kind, id).await?.is_none() {
        return Ok(Err(WriteError::NotFound(id.to_owned())));
    }
    let named = match kind {
        ResourceKind::Agent => "SELECT 1 FROM sessions WHERE agent = $1 AND NOT deleted LIMIT 1",
        ResourceKind::Environment => {
            "SELECT 1 FROM sessions WHERE environment = $1 AND NOT deleted LIMIT 1"
        }
        ResourceKind::Vault | ResourceKind::Credential => {
            secrets::purge(tx, id).await?;
            let text = "DELETE FROM resources WHERE parent = $1";
            tx.run(text, &[&id]).await?;
            return gone(tx, kind, id).await;
        }
    };
    if tx.exists(named, &[&id]).await? {
        return Ok(Err(WriteError::Referenced(id.to_owned())));
    }
    gone(tx, kind, id).await
}

async fn gone(tx: &Connection, kind: ResourceKind, id: &str) -> Written<()> {
    let text = "DELETE FROM resources WHERE kind = $1 AND id = $2";
    tx.run(text, &[&word(kind), &id]).await?;
    Ok(Ok(()))
}

const NEWEST: &str = "SELECT id, revision, created, archived, body, parent, unique_key \
                      FROM resources \
                      WHERE kind = $1 AND id = $2 AND ($3::bigint IS NULL OR revision = $3)";
const OLDER: &str = "SELECT v.id, v.revision, r.created, v.archived, v.body, r.parent, r.unique_key \
                     FROM revisions v \
                     JOIN resources r ON r.kind = v.kind AND r.id = v.id \
                     WHERE v.kind = $1 AND v.id = $2 AND v.revision = $3";
const ALL: &str = "SELECT id, revision, created, archived, body, parent, unique_key \
                   FROM resources \
                   WHERE kind = $1 AND id = $2 AND revision < $3 \
                   UNION ALL \
                   SELECT v.id, v.revision, r.created, v.archived, v.body, r.parent, r.unique_key \
                   FROM revisions v \
                   JOIN resources r ON r.kind = v.kind AND r.id = v.id \
                   WHERE v.kind = $1 AND v.id = $2 AND v.revision < $3 \
                   ORDER BY revision DESC LIMIT $4";

fn read(kind: ResourceKind, row: &Row) -> Result<Resource, Fault> {
    Ok(Resource {
        kind,
        id: row.try_get(0)?,
        revision: natural(row.try_get(1)?),
        created_at: Micros(row.try_get(2)?),
        archived_at: row.try_get::<_, Option<i64>>(3)?.map(Micros),
        body: raw(row.try_get(4)?)?,
        parent: row.try_get(5)?,
        unique_key: row.try_get(6)?,
    })
}

/// Returns an object at its newest revision or at one of those before.
///
/// A revision that is replaced between the two looks stands in the second place by then.
pub(super) async fn get(
    connection: &Connection,
    kind: ResourceKind,
    id: &str,
    revision: Option<u64>,
) -> Result<Resource, ReadError> {
    let revision = revision.map(integer);
    for text in [NEWEST, OLDER] {
        if let Some(row) = connection.row(text, &[&word(kind), &id, &revision]).await? {
            return Ok(read(kind, &row)?);
        }
    }
    Err(ReadError::NotFound(id.to_owned()))
}

/// Lists revisions, newest first.
pub(super) async fn revisions(
    connection: &Connection,
    kind: ResourceKind,
    id: &str,
    before: Option<u64>,
    limit: usize,
) -> Result<ResourcePage, ReadError> {
    let known = "SELECT 1 FROM resources WHERE kind = $1 AND id = $2";
    if !connection.exists(known, &[&word(kind), &id]).await? {
        return Err(ReadError::NotFound(id.to_owned()));
    }
    let before = before.map_or(i64::MAX, integer);
    let wanted = bound(limit.saturating_add(1));
    let values: [super::connect::Value<'_>; 4] = [&word(kind), &id, &before, &wanted];
    page(kind, &connection.rows(ALL, &values).await?, limit)
}

/// Lists objects by time of creation.
pub(super) async fn list(
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
        found.two(side, created.0, id.clone());
    }
    let (condition, values) = found.finish(order, query.limit.saturating_add(1));
    let text = format!(
        "SELECT id, revision, created, archived, body, parent, unique_key FROM resources WHERE {condition}"
    );
    let rows = connection.rows(&text, &values.all()).await?;
    page(query.kind, &rows, query.limit)
}

fn page(kind: ResourceKind, rows: &[Row], limit: usize) -> Result<ResourcePage, ReadError> {
    let items = rows.iter().take(limit).map(|row| read(kind, row));
    Ok(ResourcePage {
        items: items.collect::<Result<_, _>>()?,
        more: rows.len() > limit,
    })
}
