//! Writes as they wait.

use std::fmt;

use outlast_protocol::id::SessionId;
use outlast_session::{Body, Json, Proposal, Said, Step};
use rusqlite::Connection;
use tokio::{sync::oneshot, time::Instant};

use super::fault::Fault;
use crate::{Append, AppendError, Material, Outcome, WriteError, seal::INLINE};

/// A write that waits for the writer.
#[derive(Debug)]
pub(super) enum Job {
    /// A proposal.
    Append(Box<AppendJob>),
    /// Anything else.
    Write(Box<dyn Write>),
}

impl Job {
    /// Returns about how many bytes it adds.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Append(job) => job.size,
            Self::Write(_) => 1_024,
        }
    }

    /// Tells the writer that nothing was written.
    pub(super) fn fail(self, reason: &str) {
        match self {
            Self::Append(job) => job.answer(Err(AppendError::Unavailable(reason.to_owned()))),
            Self::Write(write) => write.fail(reason),
        }
    }
}

/// A proposal that waits.
#[derive(Debug)]
pub(super) struct AppendJob {
    pub(super) session: SessionId,
    pub(super) append: Append,
    /// Its large bodies, once they are in blobs.
    pub(super) staged: Staged,
    /// Bytes of its bodies that will stand in rows.
    pub(super) size: usize,
    pub(super) since: Instant,
    pub(super) reply: oneshot::Sender<Result<Done, AppendError>>,
}

/// Bodies that lie in blobs already, or why they do not.
pub(super) type Staged = Result<Vec<(Json, Material)>, String>;

/// What came of an append; copies of bodies in blobs are still to be loaded.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) outcome: Outcome,
    /// Positions of records whose body has to be loaded.
    pub(super) away: Vec<u64>,
}

impl AppendJob {
    /// Answers the proposer, if it is still there.
    pub(super) fn answer(self, answer: Result<Done, AppendError>) {
        crate::metric_definitions::appended(self.since.elapsed());
        // A proposer that went away withdrew nothing and misses nothing.
        drop(self.reply.send(answer));
    }
}

/// A write other than an append.
pub(super) trait Write: fmt::Debug + Send {
    /// Does it inside the transaction; all checks come before the first change.
    ///
    /// It is run again if the transaction is rolled back for a neighbour's sake.
    fn run(&mut self, transaction: &Connection) -> Result<(), Fault>;

    /// Tells its asker, once it is durable.
    fn done(self: Box<Self>);

    /// Tells its asker that nothing was written.
    fn fail(self: Box<Self>, reason: &str);
}

/// A write made of a closure.
pub(super) struct Task<T, F> {
    work: F,
    value: Option<Result<T, WriteError>>,
    reply: oneshot::Sender<Result<T, WriteError>>,
}

impl<T, F> fmt::Debug for Task<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

impl<T, F> Task<T, F>
where
    T: Send + 'static,
    F: FnMut(&Connection) -> Result<Result<T, WriteError>, Fault> + Send + 'static,
{
    /// Makes a write, and where its answer comes.
    pub(super) fn job(work: F) -> (Job, oneshot::Receiver<Result<T, WriteError>>) {
        let (reply, answer) = oneshot::channel();
        (
            Job::Write(Box::new(Self {
                work,
                value: None,
                reply,
            })),
            answer,
        )
    }
}

impl<T, F> Write for Task<T, F>
where
    T: Send,
    F: FnMut(&Connection) -> Result<Result<T, WriteError>, Fault> + Send,
{
    fn run(&mut self, transaction: &Connection) -> Result<(), Fault> {
        self.value = Some((self.work)(transaction)?);
        Ok(())
    }

    fn done(self: Box<Self>) {
        if let Some(value) = self.value {
            drop(self.reply.send(value));
        }
    }

    fn fail(self: Box<Self>, reason: &str) {
        drop(
            self.reply
                .send(Err(WriteError::Unavailable(reason.to_owned()))),
        );
    }
}

/// Returns the bodies of a proposal that are stored as they are.
pub(super) fn bodies(proposal: &Proposal) -> Vec<&Json> {
    match proposal {
        Proposal::Create(new) => new.inputs.iter().map(|input| &input.body).collect(),
        Proposal::Send(send) => send.inputs.iter().map(|input| &input.body).collect(),
        Proposal::Update(change) => vec![&change.event],
        Proposal::Brain { step, .. } => of_step(step),
        Proposal::Keyed { fact, .. } => of_fact(fact),
        Proposal::Mount { .. }
        | Proposal::Unmount { .. }
        | Proposal::Archive(_)
        | Proposal::Delete(_)
        | Proposal::Claim { .. }
        | Proposal::Checkpoint(_) => Vec::new(),
    }
}

fn of_step(step: &Step) -> Vec<&Json> {
    match step {
        Step::Respond(response) => response.events.iter().filter_map(of_said).collect(),
        Step::Fail(failure) => vec![&failure.error],
        Step::Prefix(body) | Step::Note(body) => vec![body],
        Step::TakeIn { .. } | Step::EndTurn(_) | Step::Interrupt | Step::Release | Step::Pin(_) => {
            Vec::new()
        }
    }
}

fn of_said(said: &Said) -> Option<&Json> {
    match said {
        Said::Message(_, body) => Some(body),
        Said::Thinking(_) | Said::Call { .. } => None,
    }
}

fn of_fact(fact: &outlast_session::Fact) -> Vec<&Json> {
    use outlast_session::Fact;
    match fact {
        Fact::Settled(_, _, body) => vec![body],
        Fact::RequestStarted
        | Fact::RequestEnded(_)
        | Fact::Intended(_)
        | Fact::HandWanted(_)
        | Fact::HandLost(_) => Vec::new(),
    }
}

/// Tells whether a body goes to a blob.
pub(super) fn is_large(body: &str) -> bool {
    body.len() > INLINE
}

/// Tells whether a record's body, which should be there, is still to be loaded.
pub(super) fn is_away(body: &Body, salt: Option<&[u8; 16]>) -> bool {
    matches!(body, Body::Erased) && salt.is_some()
}
