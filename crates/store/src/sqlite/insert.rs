//! The statements that an append consists of.

use outlast_session::{STATE_VERSION, State};
use rusqlite::{Connection, params};

use super::fault::Fault;
use crate::{
    heads::Head,
    projection::{Facets, Lease, name, text},
    stored::{Stored, integer},
};

/// Inserts a record.
pub(super) fn record(transaction: &Connection, no: i64, stored: &Stored) -> Result<(), Fault> {
    let record = &stored.record;
    transaction
        .prepare_cached(
            "INSERT INTO records (session_no, position, thread, at, public, origin, kind, version, \
             event, digest, hash, salt, blob, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            no,
            integer(record.position),
            record.thread,
            record.at.0,
            record.kind.is_public(),
            record.origin.to_string(),
            record.kind.text(),
            record.version,
            record.event.map(|id| id.to_string()),
            record.digest,
            record.hash,
            record.salt,
            stored.blob.map(integer),
            stored.inline(),
        ])?;
    Ok(())
}

/// Inserts the row of a new session; returns its number.
pub(super) fn session(
    transaction: &Connection,
    state: &State,
    hash: &[u8; 32],
) -> Result<i64, Fault> {
    let facets = Facets::of(state);
    transaction
        .prepare_cached(
            "INSERT INTO sessions (id, tail, hash, created, archived, deleted, status, agent, \
             agent_version, environment, state_version, state) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            state.id.to_string(),
            integer(state.tail),
            hash,
            state.created_at.0,
            facets.archived.map(|at| at.0),
            facets.deleted,
            facets.status,
            name(facets.agent),
            facets.agent_version,
            name(facets.environment),
            STATE_VERSION,
            text(state)?,
        ])?;
    Ok(transaction.last_insert_rowid())
}

/// Moves the head of a session, and what is listed of it where that changed.
pub(super) fn head(
    transaction: &Connection,
    before: Option<&State>,
    after: &Head,
) -> Result<(), Fault> {
    let state = &*after.state;
    transaction
        .prepare_cached(
            "UPDATE sessions SET tail = ?2, hash = ?3, state_version = ?4, state = ?5 WHERE no = ?1",
        )?
        .execute(params![after.no, integer(state.tail), after.hash, STATE_VERSION, text(state)?])?;
    // Apart, because these columns are indexed: an index is rewritten where its columns are named,
    // changed or not, and each costs a page of log.
    let facets = Facets::of(state);
    let known = before.map(Facets::of);
    if known.is_some_and(|known| known == facets) {
        return Ok(());
    }
    let status = facets.status;
    if known.is_some_and(|known| Facets { status, ..known } == facets) {
        transaction
            .prepare_cached("UPDATE sessions SET status = ?2 WHERE no = ?1")?
            .execute(params![after.no, status])?;
    } else {
        transaction
            .prepare_cached(
                "UPDATE sessions SET created = ?2, archived = ?3, deleted = ?4, status = ?5, \
                 agent = ?6, agent_version = ?7, environment = ?8 WHERE no = ?1",
            )?
            .execute(params![
                after.no,
                state.created_at.0,
                facets.archived.map(|at| at.0),
                facets.deleted,
                facets.status,
                name(facets.agent),
                facets.agent_version,
                name(facets.environment),
            ])?;
    }
    Ok(())
}

/// Keeps the configuration where it is another object than before.
pub(super) fn config(
    transaction: &Connection,
    before: Option<&State>,
    after: &Head,
) -> Result<bool, Fault> {
    let Some(config) = &after.state.config else {
        return Ok(false);
    };
    let known = before.and_then(|before| before.config.as_ref());
    if known.is_some_and(|known| std::sync::Arc::ptr_eq(known, config)) {
        return Ok(false);
    }
    transaction
        .prepare_cached("INSERT OR REPLACE INTO configs (session_no, body) VALUES (?1, ?2)")?
        .execute(params![after.no, text(&**config)?])?;
    Ok(true)
}

/// Keeps who holds the threads and which want a brain, where that changed.
pub(super) fn threads(
    transaction: &Connection,
    before: Option<&State>,
    after: &Head,
) -> Result<(), Fault> {
    let state = &*after.state;
    if state.deleted {
        transaction
            .prepare_cached("DELETE FROM threads WHERE session_no = ?1")?
            .execute([after.no])?;
        return Ok(());
    }
    for (number, thread) in (0_u32..).zip(&state.threads) {
        let row = Lease::of(state, number, thread);
        let known = before.and_then(|before| {
            before
                .thread(number)
                .map(|thread| Lease::of(before, number, thread))
        });
        if known != Some(row) {
            lease(transaction, after, number, row)?;
        }
    }
    Ok(())
}

fn lease(transaction: &Connection, head: &Head, number: u32, row: Lease) -> Result<(), Fault> {
    transaction
        .prepare_cached(
            "INSERT INTO threads (session_no, thread, epoch, attempts, holder, work, ready_at, \
             since, deadline) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
             ON CONFLICT DO UPDATE SET epoch = ?3, attempts = ?4, holder = ?5, work = ?6, \
             deadline = ?9, \
             since = CASE WHEN ready_at IS NULL THEN ?8 ELSE since END, ready_at = ?7",
        )?
        .execute(params![
            head.no,
            number,
            integer(row.epoch),
            row.attempts,
            row.holder.map(|id| id.to_string()),
            row.work,
            row.ready_at.map(|at| at.0),
            head.state.at.0,
            row.deadline.map(|at| at.0),
        ])?;
    Ok(())
}
