//! Deciding on the appends of one session that wait together.

use std::sync::Arc;

use outlast_protocol::id::{EventId, FileId, SessionId};
use outlast_session::{
    Answer, Decision, DraftBody, Erasure, Json, Proposal, Record, Refusal, State,
};

use super::found::{Found, Wanted};
use crate::{
    Append, AppendError, Blob, End, Material, Minter, Outcome, Receipt, Unless,
    deciding::{self, Seams, needs, place, unused},
    heads::Head,
    projection::{Lease, changed, epochs, kind},
    staging::{Done, away},
    stored::Stored,
    waiting::AppendJob,
};

/// Appends of one session that are decided together, in order.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) session: SessionId,
    pub(super) jobs: Vec<AppendJob>,
    /// How often its head had moved.
    pub(super) tries: u32,
    /// Whether it goes in a transaction of its own, after one that failed with others.
    pub(super) alone: bool,
}

/// One proposal of a group as it was decided.
#[derive(Debug)]
pub(super) struct Step {
    /// Which of the jobs.
    job: usize,
    decision: Decision,
    /// Ids that were drawn for it.
    drew: Vec<EventId>,
    objects: Vec<(&'static str, String, i64)>,
    sources: Vec<FileId>,
    begun: Option<Blob>,
}

/// What a group writes.
#[derive(Debug)]
pub(super) struct Write {
    /// The head it goes behind; `None` makes the session.
    pub(super) before: Option<Head>,
    pub(super) state: Arc<State>,
    /// The chain after it.
    pub(super) hash: [u8; 32],
    pub(super) records: Vec<Stored>,
    pub(super) leases: Vec<(u32, Lease)>,
    pub(super) receipts: Vec<Receipt>,
    /// Processes that take a lease by it.
    pub(super) claimants: Vec<String>,
    /// Objects that have to be there: kind, id, revision.
    pub(super) objects: Vec<(&'static str, String, i64)>,
    /// Files that have to be there.
    pub(super) sources: Vec<String>,
    /// Bodies that are taken away by it.
    pub(super) erasures: Vec<Erasure>,
    /// Blobs that must not have been given up.
    pub(super) begun: Vec<String>,
}

impl Write {
    pub(super) fn epochs(&self) -> String {
        epochs(&self.state)
    }

    /// Returns the objects as columns.
    pub(super) fn objects(&self) -> (Vec<&'static str>, Vec<String>, Vec<i64>) {
        let (mut kinds, mut ids, mut revisions) = (Vec::new(), Vec::new(), Vec::new());
        for (kind, id, revision) in &self.objects {
            kinds.push(*kind);
            ids.push(id.clone());
            revisions.push(*revision);
        }
        (kinds, ids, revisions)
    }

    /// Returns the receipts that others may keep from being written.
    pub(super) fn guarded(&self) -> impl Iterator<Item = &Receipt> {
        let receipts = self.receipts.iter();
        receipts.filter(|receipt| receipt.unless != Unless::Never)
    }

    /// Returns where the log ends after it.
    pub(super) fn end(&self) -> End {
        End {
            tail: self.state.tail,
            hash: self.hash,
        }
    }
}

/// A body that goes to a blob before its record is written.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) digest: [u8; 32],
    pub(super) body: Json,
}

/// What came of a group.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) group: Group,
    pub(super) before: Option<Head>,
    /// Whether the head was read just now; what follows from one that was not has to be confirmed.
    pub(super) fresh: bool,
    /// One for each job.
    pub(super) answers: Vec<Result<Done, AppendError>>,
    pub(super) write: Option<Write>,
    pub(super) late: Vec<Late>,
}

/// A group whose proposals were judged.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) group: Group,
    pub(super) before: Option<Head>,
    pub(super) fresh: bool,
    refused: Vec<(usize, AppendError)>,
    steps: Vec<Step>,
}

impl Judged {
    /// Judges the proposals of a group one after another, each on the state that those before it
    /// lead to.
    pub(super) fn judge(group: Group, before: Option<Head>, fresh: bool, seams: &Seams) -> Self {
        let (mut refused, mut steps) = (Vec::new(), Vec::new());
        let mut state: Option<Arc<State>> = before.as_ref().map(|head| head.state.clone());
        for (at, job) in group.jobs.iter().enumerate() {
            match step(at, job, state.as_deref(), seams) {
                Ok(step) => {
                    if !step.decision.drafts.is_empty() {
                        state = Some(Arc::new(step.decision.state.clone()));
                    }
                    steps.push(step);
                }
                Err(error) => refused.push((at, error)),
            }
        }
        Self {
            group,
            before,
            fresh,
            refused,
            steps,
        }
    }

    /// Adds what has to be looked up before the group can be written.
    pub(super) fn want(&self, wanted: &mut Wanted) {
        let tail = self.before.as_ref().map_or(0, |head| head.state.tail);
        let no = self.before.as_ref().map(|head| head.no);
        for step in &self.steps {
            wanted.objects(&step.objects);
            wanted.sources(&step.sources);
            wanted.begun(step.begun.as_ref());
            let Some(no) = no else { continue };
            for draft in &step.decision.drafts {
                match &draft.body {
                    DraftBody::Copy(position) if *position <= tail => {
                        wanted.record(no, *position);
                    }
                    DraftBody::Copy(_) | DraftBody::Json(_) => {}
                }
                if let Some(event) = draft.event.filter(|event| !step.drew.contains(event)) {
                    wanted.event(no, event);
                }
            }
        }
        if self.group.tries > 0 {
            let claims = self.group.jobs.iter();
            let claims = claims.filter_map(|job| job.append.proposal.claimant());
            claims.for_each(|process| wanted.process(process));
            let receipts = self.group.jobs.iter();
            let receipts = receipts.filter_map(|job| job.append.receipt.as_ref());
            receipts.for_each(|receipt| wanted.receipt(receipt));
        }
    }

    /// Makes the records; a proposal that what was found speaks against is given back, and those
    /// behind it have to be judged anew.
    pub(super) fn plan(
        self,
        found: &Found,
        seams: &Seams,
    ) -> Result<Plan, (Group, usize, AppendError)> {
        let Self {
            group,
            before,
            fresh,
            refused,
            steps,
        } = self;
        let mut answers: Vec<Option<Result<Done, AppendError>>> =
            group.jobs.iter().map(|_| None).collect();
        for (at, error) in refused {
            if let Some(answer) = answers.get_mut(at) {
                *answer = Some(Err(error));
            }
        }
        let mut build = Build::new(group.session, before.as_ref(), seams);
        for step in steps {
            let at = step.job;
            let Some(job) = group.jobs.get(at) else {
                continue;
            };
            match build.add(step, job, found) {
                Ok(done) => {
                    if let Some(answer) = answers.get_mut(at) {
                        *answer = Some(Ok(done));
                    }
                }
                Err(error) => return Err((group, at, error)),
            }
        }
        let (write, late) = build.finish(before.clone());
        let answers = answers.into_iter().map(|answer| {
            answer.unwrap_or_else(|| Err(AppendError::Failed("it was not decided".to_owned())))
        });
        let answers = answers.collect();
        Ok(Plan {
            group,
            before,
            fresh,
            answers,
            write,
            late,
        })
    }
}

fn step(
    at: usize,
    job: &AppendJob,
    state: Option<&State>,
    seams: &Seams,
) -> Result<Step, AppendError> {
    if let Err(reason) = &job.staged {
        return Err(AppendError::Unavailable(reason.clone()));
    }
    let proposal = &job.append.proposal;
    let needs = needs(job.session, proposal, state)?;
    let now = seams.clock.now();
    let mut minter = Minter::new(now, &*seams.entropy);
    let decision = seams.admit(state, proposal, now, &mut minter)?;
    if decision.drafts.is_empty() && state.is_none() {
        return Err(Refusal::Illegal("nothing begins a session").into());
    }
    let objects = needs.objects.into_iter();
    let objects = objects.map(|(object, id, revision)| (kind(object), id, i64::from(revision)));
    Ok(Step {
        job: at,
        decision,
        drew: minter.into_drawn(),
        objects: objects.collect(),
        sources: needs.sources.iter().map(|new| new.source).collect(),
        begun: needs.begun,
    })
}

/// Records as they add up.
struct Build<'a> {
    session: SessionId,
    seams: &'a Seams,
    end: End,
    no: Option<i64>,
    known: Option<Arc<State>>,
    state: Option<Arc<State>>,
    records: Vec<Stored>,
    receipts: Vec<Receipt>,
    claimants: Vec<String>,
    objects: Vec<(&'static str, String, i64)>,
    sources: Vec<String>,
    erasures: Vec<Erasure>,
    begun: Vec<String>,
    late: Vec<Late>,
}

impl<'a> Build<'a> {
    fn new(session: SessionId, before: Option<&Head>, seams: &'a Seams) -> Self {
        let known = before.map(|head| head.state.clone());
        Self {
            session,
            seams,
            end: before.map_or_else(|| End::of_nothing(session), Head::end),
            no: before.map(|head| head.no),
            state: known.clone(),
            known,
            records: Vec::new(),
            receipts: Vec::new(),
            claimants: Vec::new(),
            objects: Vec::new(),
            sources: Vec::new(),
            erasures: Vec::new(),
            begun: Vec::new(),
            late: Vec::new(),
        }
    }

    fn add(&mut self, step: Step, job: &AppendJob, found: &Found) -> Result<Done, AppendError> {
        found.check(&step.objects, &step.sources)?;
        found.check_begun(step.begun.as_ref())?;
        let claimant = job.append.proposal.claimant();
        if let Some(process) = claimant.filter(|process| found.is_dead(*process)) {
            return Err(AppendError::Dead(process));
        }
        if let Some(receipt) = &job.append.receipt
            && found.answers(receipt)
        {
            return Err(AppendError::Answered);
        }
        if step.decision.drafts.is_empty() {
            return self.nothing(step.decision.answer, &job.append);
        }
        self.unused(&step, found)?;
        let staged = job.staged.as_deref().unwrap_or_default();
        let sealed = self.seal(&step.decision, staged, found)?;
        let Decision { state, answer, .. } = step.decision;
        let state = Arc::new(state);
        let first = sealed
            .first()
            .map_or(state.tail + 1, |stored| stored.record.position);
        if let Some(last) = sealed.last() {
            self.end = End {
                tail: last.record.position,
                hash: last.record.hash,
            };
        }
        self.receive(&job.append, &state, first);
        self.claimants.extend(claimant.map(|id| id.to_string()));
        if let Proposal::Erase(wish) = &job.append.proposal {
            self.erasures.extend(wish.erasures.iter().cloned());
        }
        for object in step.objects {
            if !self.objects.contains(&object) {
                self.objects.push(object);
            }
        }
        let sources = step.sources.iter().map(ToString::to_string);
        for source in sources {
            if !self.sources.contains(&source) {
                self.sources.push(source);
            }
        }
        self.begun.extend(step.begun.map(|blob| blob.to_string()));
        let records: Arc<[Record]> = sealed.iter().map(|stored| stored.record.clone()).collect();
        self.records.extend(sealed);
        self.state = Some(state.clone());
        let away = away(&records);
        let outcome = Outcome {
            answer,
            records,
            state,
        };
        Ok(Done { outcome, away })
    }

    /// Answers a proposal that appends nothing.
    fn nothing(&mut self, answer: Answer, append: &Append) -> Result<Done, AppendError> {
        let begins = Refusal::Illegal("nothing begins a session");
        let state = self.state.clone().ok_or(begins)?;
        // A request that found its wish fulfilled was accepted; all other answers ask for another.
        if answer == Answer::Nothing {
            self.receive(append, &state, state.tail + 1);
        }
        let outcome = Outcome {
            answer,
            records: Arc::new([]),
            state,
        };
        let away = Vec::new();
        Ok(Done { outcome, away })
    }

    fn receive(&mut self, append: &Append, state: &State, first: u64) {
        if let Some(receipt) = &append.receipt {
            let receipt = deciding::receipt(receipt, state, first);
            // Two in one statement would be one too many; the newest answer counts.
            self.receipts
                .retain(|known| known.fingerprint != receipt.fingerprint);
            self.receipts.push(receipt);
        }
    }

    /// Checks that ids which a writer brought along are new, in the log and among those before.
    fn unused(&self, step: &Step, found: &Found) -> Result<(), AppendError> {
        let drew = |event: EventId| step.drew.contains(&event);
        unused(&step.decision.drafts, drew, |draft, event| {
            let copy = matches!(draft.body, DraftBody::Copy(_));
            let mut own = self.records.iter().map(|stored| &stored.record);
            let here =
                own.any(|record| record.event == Some(event) && (!copy || record.kind.is_public()));
            let there = self.no.and_then(|no| found.event(no, event));
            Ok(here || there.is_some_and(|public| !copy || public))
        })
    }

    fn seal(
        &mut self,
        decision: &Decision,
        staged: &[(Json, Material)],
        found: &Found,
    ) -> Result<Vec<Stored>, AppendError> {
        let Self {
            seams,
            end,
            no,
            records,
            late,
            ..
        } = self;
        let entropy = &*seams.entropy;
        let original = |position: u64| {
            let own = records.iter();
            let mut own = own.filter(|stored| stored.record.position == position);
            let known = own.next().or_else(|| found.record((*no)?, position));
            known.cloned().ok_or_else(|| {
                let words = format!("a copy names record {position}, which is not there");
                AppendError::Failed(words)
            })
        };
        let put = |body: &Json| {
            let material = Material::fresh(body, entropy);
            late.push(Late {
                digest: material.digest,
                body: body.clone(),
            });
            Ok(material)
        };
        place(decision, *end, staged, entropy, original, put)
    }

    fn finish(self, before: Option<Head>) -> (Option<Write>, Vec<Late>) {
        let Some(state) = self.state else {
            return (None, self.late);
        };
        if self.records.is_empty() && self.receipts.is_empty() {
            return (None, self.late);
        }
        debug_assert_eq!(state.id, self.session, "a log is that of its session");
        let leases = if state.deleted {
            Vec::new()
        } else {
            changed(self.known.as_deref(), &state)
        };
        let write = Write {
            before,
            hash: self.end.hash,
            records: self.records,
            leases,
            receipts: self.receipts,
            claimants: self.claimants,
            objects: self.objects,
            sources: self.sources,
            erasures: self.erasures,
            begun: self.begun,
            state,
        };
        (Some(write), self.late)
    }
}
