//! Rows of whole logs, and everything that is projected from them.

use outlast_session::{STATE_VERSION, State};

use super::{
    connect::{Connection, Value},
    fault::Fault,
};
use crate::{
    projection::{Facets, Lease, epochs, name, text},
    stored::{Stored, integer},
};

/// Writes what is projected from a log: the head, whose row is there, and rows that are not.
pub(super) async fn project(
    tx: &Connection,
    no: i64,
    state: &State,
    hash: &[u8; 32],
) -> Result<(), Fault> {
    let facets = Facets::of(state);
    let head = "UPDATE sessions SET tail = $2, hash = $3, epochs = $4, created = $5, \
                archived = $6, deleted = $7, status = $8, agent = $9, agent_version = $10, \
                environment = $11, state_version = $12, state = $13 WHERE no = $1";
    let values: [Value<'_>; 13] = [
        &no,
        &integer(state.tail),
        &hash.as_slice(),
        &epochs(state),
        &facets.created.0,
        &facets.archived.map(|at| at.0),
        &facets.deleted,
        &facets.status,
        &name(facets.agent),
        &i64::from(facets.agent_version),
        &name(facets.environment),
        &i64::from(STATE_VERSION),
        &text_of(state)?,
    ];
    tx.run(head, &values).await?;
    if let Some(config) = &state.config {
        let text = "INSERT INTO configs (session_no, body) VALUES ($1, $2)";
        tx.run(text, &[&no, &text_of(&**config)?]).await?;
    }
    for (number, thread) in (0_u32..).zip(&state.threads) {
        let lease = Lease::of(state, number, thread);
        let text = "INSERT INTO threads (session_no, thread, epoch, attempts, holder, work, \
                    ready_at, since, deadline) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let values: [Value<'_>; 9] = [
            &no,
            &i64::from(number),
            &integer(lease.epoch),
            &i64::from(lease.attempts),
            &lease.holder.map(|id| id.to_string()),
            &lease.work,
            &lease.ready_at.map(|at| at.0),
            &state.at.0,
            &lease.deadline.map(|at| at.0),
        ];
        tx.run(text, &values).await?;
    }
    for hand in state.named_hands() {
        let text = "INSERT INTO hands (incarnation, session_no) VALUES ($1, $2) \
                    ON CONFLICT (incarnation) DO UPDATE SET session_no = excluded.session_no";
        tx.run(text, &[&hand.to_string(), &no]).await?;
    }
    Ok(())
}

fn text_of(value: &impl serde::Serialize) -> Result<String, Fault> {
    Ok(text(value)?)
}

/// Makes the row of a session that comes from elsewhere; `None` if it is here already.
///
/// Its columns are filled by [`project`].
pub(super) async fn session(tx: &Connection, state: &State) -> Result<Option<i64>, Fault> {
    let text = "INSERT INTO sessions (id, tail, hash, epochs, created, status, agent, \
                agent_version, environment, state_version, state) \
                VALUES ($1, 0, '', '', 0, '', '', 0, '', 0, '') \
                ON CONFLICT (id) DO NOTHING RETURNING no";
    let made = tx.row(text, &[&state.id.to_string()]).await?;
    Ok(made.map(|row| row.try_get(0)).transpose()?)
}

/// Inserts some records.
pub(super) async fn records(tx: &Connection, no: i64, all: &[Stored]) -> Result<(), Fault> {
    let text = "INSERT INTO records (session_no, position, thread, at, public, origin, kind, \
                version, event, digest, hash, salt, blob, body) \
                SELECT $1::bigint, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[], \
                $6::text[], $7::text[], $8::bigint[], $9::text[], $10::bytea[], $11::bytea[], \
                $12::bytea[], $13::bigint[], $14::text[])";
    let values: [Value<'_>; 14] = [
        &no,
        &column(all, |one| integer(one.record.position)),
        &column(all, |one| i64::from(one.record.thread)),
        &column(all, |one| one.record.at.0),
        &column(all, |one| one.record.kind.is_public()),
        &column(all, |one| one.record.origin.to_string()),
        &column(all, |one| one.record.kind.text()),
        &column(all, |one| i64::from(one.record.version)),
        &column(all, |one| one.record.event.map(|id| id.to_string())),
        &column(all, |one| one.record.digest.to_vec()),
        &column(all, |one| one.record.hash.to_vec()),
        &column(all, |one| one.record.salt.map(|salt| salt.to_vec())),
        &column(all, |one| one.blob.map(integer)),
        &column(all, Stored::inline),
    ];
    tx.run(text, &values).await?;
    Ok(())
}

fn column<'a, T>(all: &'a [Stored], read: impl Fn(&'a Stored) -> T) -> Vec<T> {
    all.iter().map(read).collect()
}
