//! One append inside the transaction of its batch.

mod checks;
mod material;

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use outlast_protocol::{Micros, id::SessionId};
use outlast_session::{
    Answer, Body, Context, Decision, Json, Proposal, Record, Refusal, State, admit,
};
use rusqlite::Connection;

use super::{
    Room,
    fault::Fault,
    files,
    heads::Head,
    insert,
    job::{AppendJob, Done, is_away},
    load, named, receipts,
    rows::Stored,
};
use crate::{Append, AppendError, Material, Minter, Outcome, Reply};

/// A transaction, and the heads as they are inside it.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    pub(super) room: &'a Room,
    pub(super) transaction: &'a Connection,
    pub(super) moved: HashMap<SessionId, Head>,
}

/// Why an append wrote nothing.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error(transparent)]
    Answered(#[from] AppendError),
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Answered(refusal.into())
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Fault(error.into())
    }
}

impl Pass<'_> {
    /// Decides a proposal and writes what it leads to.
    ///
    /// A refusal has written nothing, so the transaction goes on; a fault ends it.
    pub(super) fn append(&mut self, job: &AppendJob) -> Result<Result<Done, AppendError>, Fault> {
        match self.decide(job) {
            Ok(done) => Ok(Ok(done)),
            Err(Stop::Answered(error)) => Ok(Err(error)),
            Err(Stop::Fault(fault)) => Err(fault),
        }
    }

    fn decide(&mut self, job: &AppendJob) -> Result<Done, Stop> {
        let staged = job.staged.as_ref().map_err(|error| unavailable(error))?;
        let (session, proposal) = (job.session, &job.append.proposal);
        let before = self.head(session)?;
        self.check(session, proposal, before.as_ref())?;
        let now = self.room.clock.now();
        let mut minter = Minter::new(now, &*self.room.entropy);
        let state = before.as_ref().map(|head| &*head.state);
        let decision = self.admit(state, proposal, now, &mut minter)?;
        if decision.drafts.is_empty() {
            return self.nothing(&job.append, before, decision.answer);
        }
        self.unused(&decision.drafts, &minter, before.as_ref())?;
        let sealed = self.seal(session, before.as_ref(), &decision, staged)?;
        self.write(&job.append, before.as_ref(), decision, &sealed, session)
    }

    /// Returns the head as this transaction has it.
    fn head(&self, session: SessionId) -> Result<Option<Head>, Fault> {
        if let Some(head) = self.moved.get(&session) {
            return Ok(Some(head.clone()));
        }
        match self.room.heads.get(session) {
            Some(head) => Ok(Some(head)),
            None => load::head(self.transaction, session, &self.room.loader),
        }
    }

    /// Asks the one judge; a fault of its own hits this proposal alone.
    fn admit(
        &self,
        state: Option<&State>,
        proposal: &Proposal,
        now: Micros,
        minter: &mut Minter<'_>,
    ) -> Result<Decision, Stop> {
        let room = self.room;
        let takes_system = |model: &str| (room.takes_system)(model);
        let mut context = Context {
            now,
            ids: minter,
            rules: &room.rules,
            takes_system: &takes_system,
        };
        let judged = catch_unwind(AssertUnwindSafe(|| admit(state, proposal, &mut context)));
        match judged {
            Ok(decision) => Ok(decision?),
            Err(_) => Err(unavailable(&"deciding on the proposal failed").into()),
        }
    }

    /// Answers a proposal that appends nothing.
    fn nothing(&self, append: &Append, before: Option<Head>, answer: Answer) -> Result<Done, Stop> {
        let state = before
            .ok_or(Refusal::Illegal("nothing begins a session"))?
            .state;
        // A request that found its wish fulfilled was accepted; all other answers ask for another.
        if answer == Answer::Nothing {
            self.receive(append, &state, state.tail + 1)?;
        }
        let outcome = Outcome {
            answer,
            records: Arc::new([]),
            state,
        };
        Ok(Done {
            outcome,
            away: Vec::new(),
        })
    }

    /// Writes records, head, projections and receipt.
    fn write(
        &mut self,
        append: &Append,
        before: Option<&Head>,
        decision: Decision,
        sealed: &[Stored],
        session: SessionId,
    ) -> Result<Done, Stop> {
        let state = Arc::new(decision.state);
        let hash = sealed.last().map_or([0; 32], |stored| stored.record.hash);
        let known = before.map(|head| &*head.state);
        let no = match before {
            Some(head) => head.no,
            None => insert::session(self.transaction, &state, &hash)?,
        };
        let after = Head {
            no,
            state: state.clone(),
            hash,
        };
        for stored in sealed {
            insert::record(self.transaction, no, stored)?;
        }
        if before.is_some() {
            insert::head(self.transaction, known, &after)?;
        }
        // What is mounted stands in the configuration.
        if insert::config(self.transaction, known, &after)? || state.deleted {
            files::mounts(self.transaction, known, &state)?;
        }
        insert::threads(self.transaction, known, &after)?;
        named::keep(self.transaction, known, &after)?;
        let first = sealed
            .first()
            .map_or(state.tail + 1, |stored| stored.record.position);
        self.receive(append, &state, first)?;
        self.moved.insert(session, after);
        let records: Arc<[Record]> = sealed.iter().map(|stored| stored.record.clone()).collect();
        let away = sealed
            .iter()
            .map(|stored| &stored.record)
            .filter(|record| missing(record));
        let away = away.map(|record| record.position).collect();
        Ok(Done {
            outcome: Outcome {
                answer: decision.answer,
                records,
                state,
            },
            away,
        })
    }

    /// Writes the receipt of an accepted request; positions are filled in here.
    fn receive(&self, append: &Append, state: &State, first: u64) -> Result<(), Fault> {
        let Some(receipt) = &append.receipt else {
            return Ok(());
        };
        let mut receipt = receipt.clone();
        if let Reply::Records { .. } = receipt.reply {
            receipt.reply = Reply::Records {
                session: state.id,
                first,
                last: state.tail,
            };
        }
        receipts::put(self.transaction, &receipt)
    }
}

fn missing(record: &Record) -> bool {
    is_away(&record.body, record.salt.as_ref())
}

fn unavailable(reason: &dyn std::fmt::Display) -> AppendError {
    AppendError::Unavailable(reason.to_string())
}

/// Tells which staged bodies no record came to name.
pub(super) fn unnamed(staged: &[(Json, Material)], records: &[Record]) -> Vec<[u8; 32]> {
    let named = |digest: &[u8; 32]| records.iter().any(|record| record.digest == *digest);
    let digests = staged.iter().map(|(_, material)| material.digest);
    digests.filter(|digest| !named(digest)).collect()
}

/// A record whose body is present, for a reader that was told to load it.
pub(super) fn fill(record: &Record, body: Json) -> Record {
    Record {
        body: Body::Json(body),
        ..record.clone()
    }
}
