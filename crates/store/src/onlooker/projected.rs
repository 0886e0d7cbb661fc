//! What stands beside a log, to be compared with what follows from it.

use std::collections::BTreeSet;

use outlast_session::State;

use crate::{
    Auditor, Damage, Damaged, End,
    projection::{Facets, Lease, epochs, name},
    stored::integer,
};

/// The columns that sessions are listed by: created, archived, deleted, status, agent, its version,
/// environment.
pub(crate) type Columns = (i64, Option<i64>, bool, String, String, u32, String);

/// A row of `threads`: its number, epoch, attempts, holder, whether there is work, from when, and
/// what runs out.
pub(crate) type Holding = (
    u32,
    i64,
    u32,
    Option<String>,
    bool,
    Option<i64>,
    Option<i64>,
);

/// Everything that is kept of a session beside its records, read at one moment.
#[derive(Debug)]
pub(crate) struct Projected {
    /// Its number in the tables.
    pub(crate) no: i64,
    /// Where it ends by its head.
    pub(crate) end: End,
    /// Whether the state is kept in the shape that this version knows.
    pub(crate) known: bool,
    /// The state, if it can be read.
    pub(crate) state: Option<State>,
    /// What it is listed by.
    pub(crate) columns: Columns,
    /// The fences of its threads, where they stand in the head too.
    pub(crate) epochs: Option<String>,
    /// Its threads.
    pub(crate) threads: Vec<Holding>,
    /// Hands that it names.
    pub(crate) hands: BTreeSet<String>,
    /// Whether there are records outside of 1 to its tail.
    pub(crate) strays: bool,
}

impl Projected {
    /// Tells whether the session is marked as deleted.
    pub(crate) fn deleted(&self) -> bool {
        self.columns.2
    }

    /// Checks that no record lies outside of what the head counts.
    pub(crate) fn no_strays(&self) -> Result<(), Damaged> {
        if self.strays {
            return Err(Damage::Stray.at(self.end.tail + 1));
        }
        Ok(())
    }

    /// Compares it with what the records fold to; `false` if this version cannot.
    pub(crate) fn compare(&self, auditor: &Auditor) -> Result<bool, Damaged> {
        if !self.known {
            return Ok(false);
        }
        let state = auditor.state();
        let fences = self.epochs.as_ref();
        let same = [
            (self.state.as_ref() == Some(state), "its stored state"),
            (self.columns == expected(state), "what it is listed by"),
            (
                fences.is_none_or(|fences| *fences == epochs(state)),
                "its fences",
            ),
            (self.threads == held(state), "who holds its threads"),
            (self.hands == named(state), "which hands are its own"),
        ];
        match same.into_iter().find(|(same, _)| !same) {
            None => Ok(true),
            Some((_, what)) => Err(Damage::Projection(what).at(self.end.tail)),
        }
    }
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

fn held(state: &State) -> Vec<Holding> {
    let threads = (0_u32..).zip(&state.threads);
    let rows = threads.map(|(number, thread)| {
        let row = Lease::of(state, number, thread);
        let holder = row.holder.map(|id| id.to_string());
        let ready = row.ready_at.map(|at| at.0);
        let epoch = integer(row.epoch);
        let deadline = row.deadline.map(|at| at.0);
        (
            number,
            epoch,
            row.attempts,
            holder,
            row.work,
            ready,
            deadline,
        )
    });
    rows.collect()
}

fn named(state: &State) -> BTreeSet<String> {
    let hands = state.named_hands();
    hands.into_iter().map(|hand| hand.to_string()).collect()
}
