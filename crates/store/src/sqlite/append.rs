//! One append inside the transaction of its batch.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use outlast_protocol::{Micros, id::SessionId};
use outlast_session::{
    Answer, Body, Context, Decision, Draft, DraftBody, Json, Proposal, Record, Refusal, State,
    admit, body::Config,
};
use rusqlite::{Connection, params};

use super::{
    Room,
    fault::Fault,
    heads::Head,
    insert,
    job::{AppendJob, Done, is_away, is_large},
    load, receipts,
    rows::{Stored, integer, record_columns},
};
use crate::{Append, AppendError, End, Material, Minter, Outcome, Reply, seal};

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
        let sealed = self.seal(session, before.as_ref(), &decision, staged)?;
        self.unused(&sealed, &minter, before.as_ref())?;
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

    /// Checks what `admit` cannot see.
    fn check(
        &self,
        session: SessionId,
        proposal: &Proposal,
        head: Option<&Head>,
    ) -> Result<(), Stop> {
        match proposal {
            Proposal::Create(new) if new.id != session => {
                Err(Refusal::Illegal("the proposal is for another session").into())
            }
            Proposal::Create(new) => self.references(&new.config, None),
            Proposal::Update(change) => {
                self.alive(session, head)?;
                self.references(&change.config, Some(&change.from))
            }
            Proposal::Send(_)
            | Proposal::Archive(_)
            | Proposal::Delete(_)
            | Proposal::Claim { .. }
            | Proposal::Brain { .. }
            | Proposal::Keyed { .. } => self.alive(session, head),
        }
    }

    fn alive(&self, session: SessionId, head: Option<&Head>) -> Result<(), Stop> {
        match head {
            Some(head) if !head.state.deleted => Ok(()),
            Some(_) | None => Err(AppendError::NotFound(session).into()),
        }
    }

    /// Checks that what a configuration names is there.
    fn references(&self, config: &Config, before: Option<&Arc<Config>>) -> Result<(), Stop> {
        let environment = config.environment_id;
        if before.is_none_or(|before| before.environment_id != environment) {
            self.exists("environment", &environment.to_string(), 1)?;
        }
        let agent = &config.agent;
        if before.is_none_or(|before| before.agent.id != agent.id) {
            self.exists("agent", &agent.id.to_string(), agent.version)?;
        }
        Ok(())
    }

    fn exists(&self, kind: &str, id: &str, revision: u32) -> Result<(), Stop> {
        let found = self
            .transaction
            .prepare_cached(
                "SELECT 1 FROM resources WHERE kind = ?1 AND id = ?2 AND revision >= ?3",
            )?
            .exists(params![kind, id, revision])?;
        if found {
            Ok(())
        } else {
            Err(AppendError::Missing(id.to_owned()).into())
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

    /// Gives the drafts their places; large bodies are in blobs when this returns.
    fn seal(
        &self,
        session: SessionId,
        before: Option<&Head>,
        decision: &Decision,
        staged: &[(Json, Material)],
    ) -> Result<Vec<Stored>, Stop> {
        let end = before.map_or_else(|| End::of_nothing(session), Head::end);
        let mut blobs: Vec<Option<u64>> = Vec::with_capacity(decision.drafts.len());
        let mut material = |draft: &Draft, sealed: &[Record]| {
            let (material, blob) = self.material(session, before, draft, sealed, &blobs, staged)?;
            blobs.push(blob);
            Ok::<_, Stop>(material)
        };
        let records = seal::seal(decision, end, &mut material)?;
        Ok(records
            .into_iter()
            .zip(blobs)
            .map(|(record, blob)| Stored { record, blob })
            .collect())
    }

    /// Returns the body of a draft, and its size if it lies in a blob.
    fn material(
        &self,
        session: SessionId,
        before: Option<&Head>,
        draft: &Draft,
        sealed: &[Record],
        blobs: &[Option<u64>],
        staged: &[(Json, Material)],
    ) -> Result<(Material, Option<u64>), Stop> {
        match &draft.body {
            DraftBody::Copy(position) => {
                let same = sealed
                    .iter()
                    .position(|record| record.position == *position);
                if let Some(record) = same.and_then(|at| sealed.get(at)) {
                    let blob = same.and_then(|at| blobs.get(at).copied()).flatten();
                    return Ok((record.into(), blob));
                }
                let original = self.original(before, *position)?;
                Ok(((&original.record).into(), original.blob))
            }
            DraftBody::Json(body) if is_large(body.get()) => {
                let size = u64::try_from(body.get().len()).unwrap_or(u64::MAX);
                let known = staged.iter().find(|(known, _)| Arc::ptr_eq(known, body));
                let material = match known {
                    Some((_, material)) => material.clone(),
                    None => self.put(session, body)?,
                };
                Ok((material, Some(size)))
            }
            DraftBody::Json(body) => Ok((Material::fresh(body, &*self.room.entropy), None)),
        }
    }

    /// Reads the record that a copy shares its body with.
    fn original(&self, before: Option<&Head>, position: u64) -> Result<Stored, Fault> {
        let missing = || {
            Fault::Bug(format!(
                "a copy names record {position}, which is not there"
            ))
        };
        let no = before.ok_or_else(missing)?.no;
        let mut statement = self.transaction.prepare_cached(concat!(
            "SELECT ",
            record_columns!(),
            " FROM records WHERE session_no = ?1 AND position = ?2"
        ))?;
        let mut rows = statement.query(params![no, integer(position)])?;
        Stored::read(rows.next()?.ok_or_else(missing)?)
    }

    /// Puts a large body that only the decision made into a blob, here and now.
    fn put(&self, session: SessionId, body: &Json) -> Result<Material, Stop> {
        let material = Material::fresh(body, &*self.room.entropy);
        let loader = &self.room.loader;
        let put = loader.bodies.put(session, &material.digest, body.clone());
        // A failure here is about this body, not about the transaction: nothing was written yet.
        loader
            .handle
            .block_on(put)
            .map_err(|error| unavailable(&error))?;
        Ok(material)
    }

    /// Checks that event ids which a writer brought along are new.
    fn unused(
        &self,
        sealed: &[Stored],
        minter: &Minter<'_>,
        before: Option<&Head>,
    ) -> Result<(), Stop> {
        let mut seen = Vec::new();
        for Stored { record, .. } in sealed {
            let Some(event) = record.event else { continue };
            let key = (event, record.kind.is_public());
            let twice = seen.contains(&key);
            seen.push(key);
            if twice || (!minter.drew(event) && self.stands(before, key)?) {
                return Err(Refusal::Illegal("an event id is used twice").into());
            }
        }
        Ok(())
    }

    fn stands(
        &self,
        before: Option<&Head>,
        (event, public): (outlast_protocol::id::EventId, bool),
    ) -> Result<bool, Fault> {
        let Some(head) = before else { return Ok(false) };
        let mut statement = self.transaction.prepare_cached(
            "SELECT 1 FROM records WHERE session_no = ?1 AND event = ?2 AND public = ?3",
        )?;
        Ok(statement.exists(params![head.no, event.to_string(), public])?)
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
        insert::config(self.transaction, known, &after)?;
        insert::threads(self.transaction, known, &after)?;
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
