//! Making every projection again from the records alone.

use outlast_session::STATE_VERSION;

use super::{
    Postgres, Room,
    connect::{Connection, Value},
    fault::Fault,
    load::refold,
    pool,
    resources::Written,
    rows::array,
};
use crate::{
    ReadError,
    projection::{Facets, Lease, epochs, name, text},
    seal::End,
    stored::{bound, integer, session_id},
};

/// Sessions looked up at a time.
const PAGE: usize = 100;

impl Postgres {
    /// Drops snapshots, states and everything else that is projected from the records, and folds
    /// them again, a session at a time; returns how many sessions there are.
    ///
    /// The store can be used meanwhile, by other nodes too.
    ///
    /// # Errors
    ///
    /// If a log cannot be folded by this version, or the database fails. Sessions before it are
    /// done.
    pub async fn rebuild(&self) -> Result<u64, ReadError> {
        self.pool
            .get()
            .await?
            .run("DELETE FROM snapshots", &[])
            .await?;
        let (mut last, mut count) = (0_i64, 0);
        loop {
            let text = "SELECT no FROM sessions WHERE no > $1 ORDER BY no LIMIT $2";
            let page = self.pool.get().await?;
            let page = page.rows(text, &[&last, &bound(PAGE)]).await?;
            if page.is_empty() {
                return Ok(count);
            }
            for row in page {
                last = row.try_get(0)?;
                let done: Result<(), crate::WriteError> =
                    pool::write!(self.pool, |tx| session(tx, last, &self.room));
                done?;
                count += 1;
            }
        }
    }
}

/// Makes the projections of one session again, while nobody appends to it.
async fn session(tx: &Connection, no: i64, room: &Room) -> Written<()> {
    let text = "SELECT id FROM sessions WHERE no = $1 AND NOT deleted FOR UPDATE";
    // One that is deleted may have lost records already; its row only waits to go.
    let Some(row) = tx.row(text, &[&no]).await? else {
        return Ok(Ok(()));
    };
    let id = session_id(row.try_get(0)?)?;
    room.heads.forget(id);
    for text in [
        "DELETE FROM threads WHERE session_no = $1",
        "DELETE FROM configs WHERE session_no = $1",
        "DELETE FROM hands WHERE session_no = $1",
    ] {
        tx.run(text, &[&no]).await?;
    }
    let state = refold(tx, no, id, &room.bodies).await?;
    let text = "SELECT hash FROM records WHERE session_no = $1 ORDER BY position DESC LIMIT 1";
    let hash = match tx.row(text, &[&no]).await? {
        Some(row) => array(row.try_get(0)?)?,
        None => End::of_nothing(id).hash,
    };
    let facets = Facets::of(&state);
    let head = "UPDATE sessions SET tail = $2, hash = $3, epochs = $4, created = $5, \
                archived = $6, deleted = $7, status = $8, agent = $9, agent_version = $10, \
                environment = $11, state_version = $12, state = $13 WHERE no = $1";
    let values: [Value<'_>; 13] = [
        &no,
        &integer(state.tail),
        &hash.as_slice(),
        &epochs(&state),
        &facets.created.0,
        &facets.archived.map(|at| at.0),
        &facets.deleted,
        &facets.status,
        &name(facets.agent),
        &i64::from(facets.agent_version),
        &name(facets.environment),
        &i64::from(STATE_VERSION),
        &text_of(&state)?,
    ];
    tx.run(head, &values).await?;
    if let Some(config) = &state.config {
        let text = "INSERT INTO configs (session_no, body) VALUES ($1, $2)";
        tx.run(text, &[&no, &text_of(&**config)?]).await?;
    }
    for (number, thread) in (0_u32..).zip(&state.threads) {
        let lease = Lease::of(&state, number, thread);
        let text = "INSERT INTO threads (session_no, thread, epoch, attempts, holder, work, \
                    ready_at, since) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let values: [Value<'_>; 8] = [
            &no,
            &i64::from(number),
            &integer(lease.epoch),
            &i64::from(lease.attempts),
            &lease.holder.map(|id| id.to_string()),
            &lease.work,
            &lease.ready_at.map(|at| at.0),
            &state.at.0,
        ];
        tx.run(text, &values).await?;
    }
    for hand in state.named_hands() {
        let text = "INSERT INTO hands (incarnation, session_no) VALUES ($1, $2) \
                    ON CONFLICT (incarnation) DO UPDATE SET session_no = excluded.session_no";
        tx.run(text, &[&hand.to_string(), &no]).await?;
    }
    Ok(Ok(()))
}

fn text_of(value: &impl serde::Serialize) -> Result<String, Fault> {
    Ok(text(value)?)
}
