//! What stands beside a log, to be compared with what follows from it.

use std::collections::BTreeSet;

use outlast_protocol::id::SessionId;
use outlast_session::State;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::{
    Auditor, Damage, Damaged, End, ReadError,
    projection::{Facets, Lease, name},
    sqlite::load::{Kept, head_columns},
    stored::{integer, natural},
};

/// The columns that sessions are listed by.
type Columns = (i64, Option<i64>, bool, String, String, u32, String);

/// A row of `threads`.
type Holding = (u32, i64, u32, Option<String>, bool, Option<i64>);

/// Everything that is kept of a session beside its records, read at one moment.
#[derive(Debug)]
pub(super) struct Projected {
    pub(super) no: i64,
    pub(super) end: End,
    state: Kept,
    columns: Columns,
    threads: Vec<Holding>,
    hands: BTreeSet<String>,
    strays: bool,
}

impl Projected {
    /// Reads it; `None` if there is no such session.
    pub(super) fn read(
        connection: &Connection,
        session: SessionId,
    ) -> Result<Option<Self>, ReadError> {
        // One moment for all: a server may be writing.
        let moment = connection.unchecked_transaction()?;
        let found = moment
            .prepare_cached(concat!(
                "SELECT ",
                head_columns!(),
                ", s.created, s.archived, s.deleted, s.status, s.agent, s.agent_version, \
                 s.environment FROM sessions s LEFT JOIN configs c ON c.session_no = s.no \
                 WHERE s.id = ?1"
            ))?
            .query_row([session.to_string()], |row| {
                let (no, tail) = (row.get(0)?, natural(row.get(2)?));
                let end = End {
                    tail,
                    hash: row.get(3)?,
                };
                Ok((no, end, Kept::read(row)?, columns(row)?))
            })
            .optional()?;
        let Some((no, end, state, columns)) = found else {
            return Ok(None);
        };
        Ok(Some(Self {
            no,
            end,
            state,
            columns,
            threads: threads(&moment, no)?,
            hands: hands(&moment, no)?,
            strays: strays(&moment, no, end.tail)?,
        }))
    }

    /// Tells whether the session is marked as deleted.
    pub(super) fn deleted(&self) -> bool {
        self.columns.2
    }

    /// Checks that no record lies outside of what the head counts.
    pub(super) fn no_strays(&self) -> Result<(), Damaged> {
        if self.strays {
            return Err(Damage::Stray.at(self.end.tail + 1));
        }
        Ok(())
    }

    /// Compares it with what the records fold to; `false` if this version cannot.
    pub(super) fn compare(&self, auditor: &Auditor) -> Result<bool, Damaged> {
        let Some(state) = auditor.state() else {
            return Ok(false);
        };
        if !self.state.is_of_this_version() {
            return Ok(false);
        }
        let kept = self.state.parse();
        let same = [
            (kept.as_ref() == Some(state), "its stored state"),
            (self.columns == expected(state), "what it is listed by"),
            (self.threads == held(state), "who holds its threads"),
            (self.hands == named(state), "which hands are its own"),
        ];
        match same.into_iter().find(|(same, _)| !same) {
            None => Ok(true),
            Some((_, what)) => Err(Damage::Projection(what).at(self.end.tail)),
        }
    }
}

fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok((
        row.get(7)?,
        row.get(8)?,
        row.get(9)?,
        row.get(10)?,
        row.get(11)?,
        row.get(12)?,
        row.get(13)?,
    ))
}

fn expected(state: &State) -> Columns {
    let facets = Facets::of(state);
    (
        facets.created.0,
        facets.archived.map(|at| at.0),
        facets.deleted,
        facets.status.to_owned(),
        name(facets.agent),
        facets.agent_version,
        name(facets.environment),
    )
}

fn threads(connection: &Connection, no: i64) -> Result<Vec<Holding>, ReadError> {
    let mut statement = connection.prepare_cached(
        "SELECT thread, epoch, attempts, holder, work, ready_at FROM threads \
         WHERE session_no = ?1 ORDER BY thread",
    )?;
    let rows = statement.query_map([no], |row| {
        Ok((
            row.get(0)?,
            row.get(1)?,
            row.get(2)?,
            row.get(3)?,
            row.get(4)?,
            row.get(5)?,
        ))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn held(state: &State) -> Vec<Holding> {
    let threads = (0_u32..).zip(&state.threads);
    let rows = threads.map(|(number, thread)| {
        let row = Lease::of(state, number, thread);
        let holder = row.holder.map(|id| id.to_string());
        let ready = row.ready_at.map(|at| at.0);
        let epoch = integer(row.epoch);
        (number, epoch, row.attempts, holder, row.work, ready)
    });
    rows.collect()
}

fn hands(connection: &Connection, no: i64) -> Result<BTreeSet<String>, ReadError> {
    let mut statement =
        connection.prepare_cached("SELECT incarnation FROM hands WHERE session_no = ?1")?;
    let rows = statement.query_map([no], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn named(state: &State) -> BTreeSet<String> {
    let hands = state.named_hands();
    hands.into_iter().map(|hand| hand.to_string()).collect()
}

/// Tells whether there are records outside of 1 to `tail`.
fn strays(connection: &Connection, no: i64, tail: u64) -> Result<bool, ReadError> {
    let found = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM records WHERE session_no = ?1 AND position > ?2) \
             OR EXISTS (SELECT 1 FROM records WHERE session_no = ?1 AND position < 1)",
        )?
        .query_row(params![no, integer(tail)], |row| row.get(0))?;
    Ok(found)
}
