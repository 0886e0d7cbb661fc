//! Appending in memory.

use std::{collections::BTreeMap, sync::Arc};

use outlast_protocol::{
    Micros,
    id::{ProcessId, SessionId},
};
use outlast_session::{
    Answer, Body, Context, Decision, Draft, DraftBody, Erase, Proposal, Record, Refusal, State,
    admit,
    body::{Config, Mounted},
};
use outlast_store::{
    Append, AppendError, Blob, End, GONE, Material, Minter, Outcome, Reply, ResourceKind, Unless,
    seal,
};

use super::{Inner, Memory, Session};

impl Memory {
    /// Decides a proposal and appends what it leads to.
    pub(super) fn decide(&self, id: SessionId, append: &Append) -> Result<Outcome, AppendError> {
        let mut inner = self.lock();
        let now = self.seams.clock.now();
        inner.check(id, &append.proposal, now)?;
        inner.may_claim(&append.proposal)?;
        if inner.answered(append.receipt.as_ref()) {
            return Err(AppendError::Answered);
        }
        let mut minter = Minter::new(now, &*self.seams.entropy);
        let mut context = Context {
            now,
            ids: &mut minter,
            rules: &self.seams.rules,
            takes_system: &*self.seams.takes_system,
        };
        let state = inner.logs.get(&id).map(|log| log.state.clone());
        let decision = admit(state.as_deref(), &append.proposal, &mut context)?;
        if decision.drafts.is_empty() {
            let state = state.ok_or(Refusal::Illegal("nothing begins a session"))?;
            if decision.answer == Answer::Nothing {
                inner.receive(append, &state, state.tail + 1);
            }
            return Ok(Outcome {
                answer: decision.answer,
                records: Arc::new([]),
                state,
            });
        }
        let records = self.seal(inner.logs.get(&id), id, &decision)?;
        inner.unused(id, &decision.drafts)?;
        Ok(inner.write(append, decision, records))
    }

    fn seal(
        &self,
        log: Option<&Session>,
        id: SessionId,
        decision: &Decision,
    ) -> Result<Vec<Record>, AppendError> {
        let known: &[Record] = log.map_or(&[], |log| &log.records);
        let end = known.last().map_or_else(
            || End::of_nothing(id),
            |record| End {
                tail: record.position,
                hash: record.hash,
            },
        );
        let wrong = |what: String| AppendError::Failed(what);
        let mut find = |draft: &Draft, sealed: &[Record]| match &draft.body {
            DraftBody::Json(body) => match &self.seams.era {
                Some(era) => {
                    let made = era.material(draft.kind, body, &*self.seams.entropy);
                    made.map_err(|error| wrong(error.to_string()))
                }
                None => Ok(Material::fresh(body, &*self.seams.entropy)),
            },
            DraftBody::Copy(position) => at(known, *position)
                .or_else(|| sealed.iter().find(|record| record.position == *position))
                .map(Material::from)
                .ok_or_else(|| wrong("a copy of nothing".to_owned())),
        };
        seal(decision, end, &mut find)
    }
}

impl Inner {
    /// Checks what `admit` cannot see.
    fn check(&self, id: SessionId, proposal: &Proposal, now: Micros) -> Result<(), AppendError> {
        let missing = AppendError::NotFound(id);
        match proposal {
            Proposal::Create(new) if new.id != id => {
                Err(Refusal::Illegal("the proposal is for another session").into())
            }
            Proposal::Create(new) => {
                self.references(&new.config, None)?;
                self.sources(&new.config.resources, now)
            }
            Proposal::Mount { resource, .. } => {
                self.live(id).ok_or(missing)?;
                self.sources(std::slice::from_ref(resource), now)
            }
            Proposal::Update(change) => {
                self.live(id).ok_or(missing)?;
                self.references(&change.config, Some(&change.from))
            }
            Proposal::Checkpoint(new) => {
                self.live(id).ok_or(missing)?;
                self.begun(&new.blob)
            }
            Proposal::Send(_)
            | Proposal::Unmount { .. }
            | Proposal::Rotate { .. }
            | Proposal::SetDeadlines { .. }
            | Proposal::Expire
            | Proposal::Erase(_)
            | Proposal::Archive(_)
            | Proposal::Delete(_)
            | Proposal::Claim { .. }
            | Proposal::ClaimAlone { .. }
            | Proposal::Revive { .. }
            | Proposal::Brain { .. }
            | Proposal::Keyed { .. } => self.live(id).map(|_| ()).ok_or(missing),
        }
    }

    /// Checks that whoever would take a lease was not declared dead.
    fn may_claim(&self, proposal: &Proposal) -> Result<(), AppendError> {
        let dead = |process: &ProcessId| self.processes.get(process).is_some_and(|row| row.dead);
        match proposal.claimant().filter(dead) {
            Some(process) => Err(AppendError::Dead(process)),
            None => Ok(()),
        }
    }

    /// Checks that the blob of a checkpoint was not given up.
    fn begun(&self, key: &str) -> Result<(), AppendError> {
        let illegal = Refusal::Illegal("the blob has no key of a checkpoint");
        let blob = Blob::of_session(key).ok_or(illegal)?;
        let known = self.is_begun(&blob);
        known
            .then_some(())
            .ok_or_else(|| AppendError::Missing(blob.to_string()))
    }

    fn sources(&self, mounted: &[Mounted], now: Micros) -> Result<(), AppendError> {
        let missing = self.missing(mounted, now);
        missing.map_or(Ok(()), |file| Err(AppendError::Missing(file.to_string())))
    }

    fn references(&self, config: &Config, before: Option<&Config>) -> Result<(), AppendError> {
        let (place, agent) = (config.environment_id, &config.agent);
        let mut named = Vec::new();
        if before.is_none_or(|before| before.environment_id != place) {
            named.push((ResourceKind::Environment, place.to_string(), 1));
        }
        if before.is_none_or(|before| before.agent.id != agent.id) {
            named.push((ResourceKind::Agent, agent.id.to_string(), agent.version));
        }
        for (kind, id, revision) in named {
            let newest = self.newest(kind, &id).map(|object| object.revision);
            if newest.is_none_or(|newest| newest < u64::from(revision)) {
                return Err(AppendError::Missing(id));
            }
        }
        Ok(())
    }

    /// Checks that event ids are new: a copy shares that of its arrival, and nothing else does.
    fn unused(&self, id: SessionId, drafts: &[Draft]) -> Result<(), AppendError> {
        let log = self.logs.get(&id);
        for (at, draft) in drafts.iter().enumerate() {
            let Some(event) = draft.event else { continue };
            let copy = matches!(draft.body, DraftBody::Copy(_));
            let taken = log.and_then(|log| log.records.get(*log.events.get(&event)?));
            let stands = taken.is_some_and(|record| !copy || record.kind.is_public());
            let same = |other: &Draft| {
                other.event == Some(event) && other.kind.is_public() == draft.kind.is_public()
            };
            if stands || drafts.iter().take(at).any(same) {
                return Err(Refusal::Illegal("an event id is used twice").into());
            }
        }
        Ok(())
    }

    fn write(&mut self, append: &Append, decision: Decision, records: Vec<Record>) -> Outcome {
        let Decision { state, answer, .. } = decision;
        let state = Arc::new(state);
        let first = records
            .first()
            .map_or(state.tail + 1, |record| record.position);
        let before = self.logs.get(&state.id).map(|log| log.state.clone());
        self.mounts(before.as_deref(), &state);
        self.checkpoints(before.as_deref(), &state);
        let log = self.logs.entry(state.id).or_insert_with(|| Session {
            records: Vec::new(),
            events: BTreeMap::new(),
            state: state.clone(),
            tails: Vec::new(),
            since: BTreeMap::new(),
            snapshots: BTreeMap::new(),
        });
        log.extend(records.iter().cloned());
        if let Proposal::Erase(wish) = &append.proposal {
            log.erase(wish);
        }
        log.advance(&state);
        self.receive(append, &state, first);
        Outcome {
            answer,
            records: records.into(),
            state,
        }
    }

    /// Keeps the receipt of an accepted request.
    fn receive(&mut self, append: &Append, state: &State, first: u64) {
        let Some(receipt) = &append.receipt else {
            return;
        };
        let mut receipt = receipt.clone();
        receipt.unless = Unless::Never;
        if let Reply::Records { .. } = receipt.reply {
            receipt.reply = Reply::Records {
                session: state.id,
                first,
                last: state.tail,
            };
        }
        self.receipts.insert(receipt.fingerprint, receipt);
    }
}

/// Returns the record at a position.
pub(super) fn at(records: &[Record], position: u64) -> Option<&Record> {
    records.get(usize::try_from(position).ok()?.checked_sub(1)?)
}

impl Session {
    /// Takes bodies away that a record says are erased, and what was made of them.
    fn erase(&mut self, wish: &Erase) {
        for erasure in &wish.erasures {
            let mut records = self.records.iter_mut();
            if let Some(record) = records.find(|record| record.position == erasure.position) {
                record.body = Body::Erased(erasure.remains.clone());
                record.salt = None;
            }
        }
        self.snapshots.clear();
    }

    /// Adds records behind those that are there.
    pub(super) fn extend(&mut self, records: impl IntoIterator<Item = Record>) {
        for record in records {
            if let Some(event) = record.event {
                self.events.insert(event, self.records.len());
            }
            self.records.push(record);
        }
    }

    /// Moves the head and tells those who watch it.
    pub(super) fn advance(&mut self, state: &Arc<State>) {
        self.state = state.clone();
        for number in (0_u32..).take(state.threads.len()) {
            if state.ready_at(number).is_none() {
                self.since.remove(&number);
            } else {
                self.since.entry(number).or_insert(state.at);
            }
        }
        let tail = if state.deleted { GONE } else { state.tail };
        self.tails.retain(|watched| !watched.is_closed());
        for watched in &self.tails {
            watched.send_replace(tail);
        }
    }
}
