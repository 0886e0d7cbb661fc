//! Statements for sealed secrets and what they are of.

use outlast_protocol::Micros;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{
    fault::Fault,
    resources::{self, Written},
};
use crate::{
    ReadError, Resource, SealedSecret, Sealing, WriteError,
    projection::kind as word,
    secrets::is_family,
    stored::{bound, integer, natural},
};

const COLUMNS: &str = "SELECT owner, parent, revision, master, sealed FROM secrets";

fn read(row: &Row<'_>) -> rusqlite::Result<SealedSecret> {
    Ok(SealedSecret {
        owner: row.get(0)?,
        parent: row.get(1)?,
        revision: natural(row.get(2)?),
        master: row.get(3)?,
        sealed: row.get(4)?,
    })
}

/// Returns the secret of an owner.
pub(super) fn get(connection: &Connection, owner: &str) -> Result<Option<SealedSecret>, ReadError> {
    let mut statement = connection.prepare_cached(&format!("{COLUMNS} WHERE owner = ?1"))?;
    let mut rows = statement.query([owner])?;
    Ok(rows.next()?.map(read).transpose()?)
}

/// Lists secrets by owner.
pub(super) fn list(
    connection: &Connection,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<SealedSecret>, ReadError> {
    let text = format!("{COLUMNS} WHERE ?1 IS NULL OR owner > ?1 ORDER BY owner LIMIT ?2");
    let mut statement = connection.prepare_cached(&text)?;
    let rows = statement.query_map(params![after, bound(limit)], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn put(transaction: &Connection, new: &SealedSecret) -> Result<(), Fault> {
    let text = "INSERT INTO secrets (owner, parent, revision, master, sealed) \
                VALUES (?1, ?2, ?3, ?4, ?5)";
    let revision = integer(new.revision);
    let values = params![new.owner, new.parent, revision, new.master, new.sealed];
    transaction.prepare_cached(text)?.execute(values)?;
    Ok(())
}

/// Stores the first secret of an owner, or replaces one that is at the revision before.
pub(super) fn replace(transaction: &Connection, new: &SealedSecret) -> Result<bool, Fault> {
    if new.revision == 1 {
        let none = revision(transaction, &new.owner)? == 0;
        return if none {
            put(transaction, new).map(|()| true)
        } else {
            Ok(false)
        };
    }
    let text = "UPDATE secrets SET revision = ?2, master = ?3, sealed = ?4, refreshing = NULL \
                WHERE owner = ?1 AND revision = ?2 - 1";
    let values = params![new.owner, integer(new.revision), new.master, new.sealed];
    Ok(transaction.prepare_cached(text)?.execute(values)? > 0)
}

/// Replaces what a secret is wrapped in.
pub(super) fn rewrap(
    transaction: &Connection,
    from: &str,
    new: &SealedSecret,
) -> Result<bool, Fault> {
    let text = "UPDATE secrets SET master = ?4, sealed = ?5 \
                WHERE owner = ?1 AND revision = ?2 AND master = ?3";
    let revision = integer(new.revision);
    let values = params![new.owner, revision, from, new.master, new.sealed];
    Ok(transaction.prepare_cached(text)?.execute(values)? > 0)
}

/// Notes that somebody refreshes a secret.
pub(super) fn claim(
    transaction: &Connection,
    owner: &str,
    revision: u64,
    now: Micros,
    until: Micros,
) -> Result<bool, Fault> {
    let text = "UPDATE secrets SET refreshing = ?4 WHERE owner = ?1 AND revision = ?2 \
                AND (refreshing IS NULL OR refreshing <= ?3)";
    let values = params![owner, integer(revision), now.0, until.0];
    Ok(transaction.prepare_cached(text)?.execute(values)? > 0)
}

/// Ends a note that somebody refreshes a secret.
pub(super) fn unclaim(
    transaction: &Connection,
    owner: &str,
    revision: u64,
    until: Micros,
) -> Result<(), Fault> {
    let text = "UPDATE secrets SET refreshing = NULL \
                WHERE owner = ?1 AND revision = ?2 AND refreshing = ?3";
    let values = params![owner, integer(revision), until.0];
    transaction.prepare_cached(text)?.execute(values)?;
    Ok(())
}

/// Removes the secret of an owner, and those of all that belong to it.
pub(super) fn purge(transaction: &Connection, id: &str) -> Result<(), Fault> {
    let text = "DELETE FROM secrets WHERE owner = ?1 OR parent = ?1";
    transaction.prepare_cached(text)?.execute([id])?;
    Ok(())
}

/// Stores a ward and its secret.
pub(super) fn insert_ward(
    transaction: &Connection,
    new: &Resource,
    secret: &SealedSecret,
    most: usize,
) -> Written<()> {
    if let Err(error) = takes(transaction, new, most)? {
        return Ok(Err(error));
    }
    let done = resources::insert(transaction, new)?;
    if done.is_ok() {
        put(transaction, secret)?;
    }
    Ok(done)
}

/// Tells whether the parent of a new ward takes it.
fn takes(transaction: &Connection, new: &Resource, most: usize) -> Written<()> {
    let parent = new.parent.clone().unwrap_or_default();
    let text = "SELECT archived IS NOT NULL FROM resources WHERE kind = ?1 AND id = ?2";
    let mut statement = transaction.prepare_cached(text)?;
    let kind = new.kind.parent().map(word);
    let found = statement.query_row(params![kind, parent], |row| row.get(0));
    match found.optional()? {
        None => return Ok(Err(WriteError::NotFound(parent))),
        Some(true) => return Ok(Err(WriteError::Archived(parent))),
        Some(false) => {}
    }
    let text =
        "SELECT id FROM resources WHERE parent = ?1 AND unique_key = ?2 AND archived IS NULL";
    let mut statement = transaction.prepare_cached(text)?;
    let mut rows = statement.query(params![parent, new.unique_key])?;
    if let Some(row) = rows.next()? {
        return Ok(Err(WriteError::Taken(row.get(0)?)));
    }
    let text =
        "SELECT count(*) FROM resources WHERE parent = ?1 AND kind = ?2 AND archived IS NULL";
    let mut statement = transaction.prepare_cached(text)?;
    let count: i64 = statement.query_row(params![parent, word(new.kind)], |row| row.get(0))?;
    Ok(if count < bound(most) {
        Ok(())
    } else {
        Err(WriteError::Full(most))
    })
}

/// Replaces a ward, and what becomes of its secret.
pub(super) fn replace_ward(
    transaction: &Connection,
    new: &Resource,
    secret: &Sealing,
) -> Written<()> {
    // All checks come before the first change.
    if let Sealing::Replaced(secret) = secret {
        let revision = revision(transaction, &secret.owner)?;
        if secret.revision.checked_sub(1) != Some(revision) {
            let id = secret.owner.clone();
            return Ok(Err(WriteError::Moved { id, revision }));
        }
    }
    let done = resources::replace(transaction, new)?;
    if done.is_ok() {
        match secret {
            Sealing::Kept => {}
            Sealing::Replaced(secret) => drop(replace(transaction, secret)?),
            Sealing::Purged => purge(transaction, &new.id)?,
        }
    }
    Ok(done)
}

/// Replaces a parent and its active wards, and removes their secrets.
pub(super) fn replace_family(
    transaction: &Connection,
    parent: &Resource,
    wards: &[Resource],
) -> Written<()> {
    if let Err(error) = resources::expect(transaction, parent, parent.revision.checked_sub(1))? {
        return Ok(Err(error));
    }
    let text = "SELECT id, revision FROM resources WHERE parent = ?1 AND archived IS NULL";
    let mut statement = transaction.prepare_cached(text)?;
    let found = statement.query_map([&parent.id], |row| Ok((row.get(0)?, natural(row.get(1)?))))?;
    let found: Vec<(String, u64)> = found.collect::<Result<_, _>>()?;
    if !is_family(&found, wards) {
        let (id, revision) = (parent.id.clone(), parent.revision.saturating_sub(1));
        return Ok(Err(WriteError::Moved { id, revision }));
    }
    for one in wards.iter().chain([parent]) {
        if let Err(error) = resources::replace(transaction, one)? {
            return Ok(Err(error));
        }
    }
    purge(transaction, &parent.id)?;
    Ok(Ok(()))
}

/// Returns the revision of an owner's secret; 0 if it has none.
fn revision(transaction: &Connection, owner: &str) -> Result<u64, Fault> {
    let text = "SELECT revision FROM secrets WHERE owner = ?1";
    let found = transaction
        .prepare_cached(text)?
        .query_row([owner], |row| row.get(0))
        .optional()?;
    Ok(found.map_or(0, natural))
}
