//! Statements for sealed secrets and what they are of.

use outlast_protocol::Micros;
use tokio_postgres::Row;

use super::{
    connect::{Connection, Value},
    fault::Fault,
    receipts,
    resources::{self, Former, Written},
};
use crate::{
    ReadError, Receipt, Resource, SealedSecret, Sealing, WriteError,
    projection::kind as word,
    secrets::is_family,
    stored::{bound, integer, natural},
};

const COLUMNS: &str = "SELECT owner, parent, revision, master, sealed FROM secrets";

fn read(row: &Row) -> Result<SealedSecret, tokio_postgres::Error> {
    Ok(SealedSecret {
        owner: row.try_get(0)?,
        parent: row.try_get(1)?,
        revision: natural(row.try_get(2)?),
        master: row.try_get(3)?,
        sealed: row.try_get(4)?,
    })
}

/// Returns the secret of an owner.
pub(super) async fn get(
    connection: &Connection,
    owner: &str,
) -> Result<Option<SealedSecret>, ReadError> {
    let text = format!("{COLUMNS} WHERE owner = $1");
    let found = connection.row(&text, &[&owner]).await?;
    let found = found.as_ref().map(read).transpose();
    Ok(found.map_err(Fault::from)?)
}

/// Lists secrets by owner.
pub(super) async fn list(
    connection: &Connection,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<SealedSecret>, ReadError> {
    let text = format!("{COLUMNS} WHERE owner > $1 ORDER BY owner LIMIT $2");
    // No owner has an empty id.
    let after = after.unwrap_or_default();
    let rows = connection.rows(&text, &[&after, &bound(limit)]).await?;
    let found: Result<_, _> = rows.iter().map(read).collect();
    Ok(found.map_err(Fault::from)?)
}

async fn put(tx: &Connection, new: &SealedSecret) -> Result<bool, Fault> {
    let text = "INSERT INTO secrets (owner, parent, revision, master, sealed) \
                VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
    let revision = integer(new.revision);
    let values: [Value<'_>; 5] = [&new.owner, &new.parent, &revision, &new.master, &new.sealed];
    Ok(tx.run(text, &values).await? > 0)
}

/// Stores the first secret of an owner, or replaces one that is at the revision before.
pub(super) async fn replace(tx: &Connection, new: &SealedSecret) -> Result<bool, Fault> {
    if new.revision == 1 {
        return put(tx, new).await;
    }
    let text = "UPDATE secrets SET revision = $2::bigint, master = $3, sealed = $4, refreshing = NULL \
                WHERE owner = $1 AND revision = $2::bigint - 1";
    let revision = integer(new.revision);
    let values: [Value<'_>; 4] = [&new.owner, &revision, &new.master, &new.sealed];
    Ok(tx.run(text, &values).await? > 0)
}

/// Replaces what a secret is wrapped in.
pub(super) async fn rewrap(tx: &Connection, from: &str, new: &SealedSecret) -> Result<bool, Fault> {
    let text = "UPDATE secrets SET master = $4, sealed = $5 \
                WHERE owner = $1 AND revision = $2 AND master = $3";
    let revision = integer(new.revision);
    let values: [Value<'_>; 5] = [&new.owner, &revision, &from, &new.master, &new.sealed];
    Ok(tx.run(text, &values).await? > 0)
}

/// Notes that somebody refreshes a secret.
pub(super) async fn claim(
    tx: &Connection,
    owner: &str,
    revision: u64,
    now: Micros,
    until: Micros,
) -> Result<bool, Fault> {
    let text = "UPDATE secrets SET refreshing = $4 WHERE owner = $1 AND revision = $2 \
                AND (refreshing IS NULL OR refreshing <= $3)";
    let values: [Value<'_>; 4] = [&owner, &integer(revision), &now.0, &until.0];
    Ok(tx.run(text, &values).await? > 0)
}

/// Ends a note that somebody refreshes a secret.
pub(super) async fn unclaim(
    tx: &Connection,
    owner: &str,
    revision: u64,
    until: Micros,
) -> Result<(), Fault> {
    let text = "UPDATE secrets SET refreshing = NULL \
                WHERE owner = $1 AND revision = $2 AND refreshing = $3";
    let values: [Value<'_>; 3] = [&owner, &integer(revision), &until.0];
    tx.run(text, &values).await?;
    Ok(())
}

/// Removes the secret of an owner, and those of all that belong to it.
pub(super) async fn purge(tx: &Connection, id: &str) -> Result<(), Fault> {
    let text = "DELETE FROM secrets WHERE owner = $1 OR parent = $1";
    tx.run(text, &[&id]).await?;
    Ok(())
}

/// Stores a ward and its secret.
pub(super) async fn insert_ward(
    tx: &Connection,
    new: &Resource,
    secret: &SealedSecret,
    most: usize,
    receipt: Option<&Receipt>,
) -> Written<()> {
    // A repeat is told by its receipt, before what it would meet of itself.
    if receipts::answered(tx, receipt).await? {
        return Ok(Err(WriteError::Answered));
    }
    if let Err(error) = takes(tx, new, most).await? {
        return Ok(Err(error));
    }
    let done = resources::insert(tx, new, receipt).await?;
    if done.is_ok() && !put(tx, secret).await? {
        let id = secret.owner.clone();
        return Ok(Err(WriteError::Moved { id, revision: 1 }));
    }
    Ok(done)
}

/// Tells whether the parent of a new ward takes it; nothing else comes to it until this is over.
async fn takes(tx: &Connection, new: &Resource, most: usize) -> Written<()> {
    let parent = new.parent.clone().unwrap_or_default();
    let kind = new.kind.parent().map(word);
    let text = "SELECT archived IS NOT NULL FROM resources WHERE kind = $1 AND id = $2 FOR UPDATE";
    match tx.row(text, &[&kind, &parent]).await? {
        None => return Ok(Err(WriteError::NotFound(parent))),
        Some(row) if row.try_get(0)? => return Ok(Err(WriteError::Archived(parent))),
        Some(_) => {}
    }
    let text = "SELECT id FROM resources \
                WHERE parent = $1 AND unique_key = $2 AND archived IS NULL";
    if let Some(row) = tx.row(text, &[&parent, &new.unique_key]).await? {
        return Ok(Err(WriteError::Taken(row.try_get(0)?)));
    }
    let text = "SELECT count(*) < $3::bigint FROM resources \
                WHERE parent = $1 AND kind = $2 AND archived IS NULL";
    let values: [Value<'_>; 3] = [&parent, &word(new.kind), &bound(most)];
    let row = tx.row(text, &values).await?;
    let room = row.map_or(Ok(false), |row| row.try_get(0))?;
    Ok(if room {
        Ok(())
    } else {
        Err(WriteError::Full(most))
    })
}

/// Replaces a ward, and what becomes of its secret.
pub(super) async fn replace_ward(
    tx: &Connection,
    new: &Resource,
    secret: &Sealing,
    receipt: Option<&Receipt>,
) -> Written<()> {
    let done = resources::replace(tx, new, Former::Kept, receipt).await?;
    if done.is_err() {
        return Ok(done);
    }
    match secret {
        Sealing::Kept => {}
        Sealing::Replaced(secret) => {
            // What was written before is taken back with this answer.
            if !replace(tx, secret).await? {
                let (id, revision) = (secret.owner.clone(), secret.revision);
                return Ok(Err(WriteError::Moved { id, revision }));
            }
        }
        Sealing::Purged => purge(tx, &new.id).await?,
    }
    Ok(Ok(()))
}

/// Replaces a parent and its active wards, and removes their secrets.
pub(super) async fn replace_family(
    tx: &Connection,
    parent: &Resource,
    wards: &[Resource],
    receipt: Option<&Receipt>,
) -> Written<()> {
    let done = resources::replace(tx, parent, Former::Kept, receipt).await?;
    if done.is_err() {
        return Ok(done);
    }
    let text = "SELECT id, revision FROM resources WHERE parent = $1 AND archived IS NULL \
                ORDER BY id FOR UPDATE";
    let mut found = Vec::new();
    for row in tx.rows(text, &[&parent.id]).await? {
        found.push((row.try_get(0)?, natural(row.try_get(1)?)));
    }
    if !is_family(&found, wards) {
        let (id, revision) = (parent.id.clone(), parent.revision.saturating_sub(1));
        return Ok(Err(WriteError::Moved { id, revision }));
    }
    for ward in wards {
        let done = resources::replace(tx, ward, Former::Kept, None).await?;
        if done.is_err() {
            return Ok(done);
        }
    }
    purge(tx, &parent.id).await?;
    Ok(Ok(()))
}
