//! One append inside the transaction of its batch.

mod checks;
mod material;

use std::{collections::HashMap, sync::Arc};

use outlast_blobs::Away;
use outlast_protocol::id::SessionId;
use outlast_session::{Answer, Decision, Proposal, Record, Refusal, State};
use rusqlite::Connection;

use super::{Room, erase, fault::Fault, files, insert, load, loose, named, receipts};
use crate::{
    Append, AppendError, Minter, Outcome, deciding,
    heads::Head,
    staging::{Done, away},
    stored::Stored,
    waiting::AppendJob,
};

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
        let staged = job.staged.as_ref();
        let staged = staged.map_err(|away| AppendError::Unavailable(away.clone()))?;
        let (session, proposal) = (job.session, &job.append.proposal);
        if receipts::answered(self.transaction, job.append.receipt.as_ref())? {
            return Err(AppendError::Answered.into());
        }
        let before = self.head(session)?;
        self.check(session, proposal, before.as_ref())?;
        let seams = &self.room.seams;
        let now = seams.clock.now();
        let mut minter = Minter::new(now, &*seams.entropy);
        let state = before.as_ref().map(|head| &*head.state);
        let decision = seams.admit(state, proposal, now, &mut minter)?;
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
        if let Proposal::Erase(wish) = &append.proposal {
            erase::bodies(self.transaction, &after, wish)?;
        }
        // What is mounted stands in the configuration.
        if insert::config(self.transaction, known, &after)? || state.deleted {
            files::mounts(self.transaction, known, &state)?;
        }
        loose::checkpoints(self.transaction, known, &state)?;
        insert::threads(self.transaction, known, &after)?;
        named::keep(self.transaction, known, &after)?;
        let first = sealed
            .first()
            .map_or(state.tail + 1, |stored| stored.record.position);
        self.receive(append, &state, first)?;
        self.moved.insert(session, after);
        let records: Arc<[Record]> = sealed.iter().map(|stored| stored.record.clone()).collect();
        let away = away(&records);
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
        let receipt = deciding::receipt(receipt, state, first);
        receipts::put(self.transaction, &receipt)
    }
}

fn unavailable(reason: &dyn std::fmt::Display) -> AppendError {
    AppendError::Unavailable(Away::other(reason))
}
