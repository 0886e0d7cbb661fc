//! Writes as they wait.

use std::fmt;

use outlast_blobs::Away;
use outlast_protocol::id::SessionId;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::Fault;
use crate::{AppendError, WriteError, lines::Waits, staging::Staged, waiting::AppendJob};

/// What a write that is no append counts for, in bytes.
const WRITE: usize = 1_024;

/// A write that waits for the writer.
#[derive(Debug)]
pub(super) enum Job {
    /// A proposal.
    Append(Box<AppendJob>),
    /// Anything else.
    Write(Box<dyn Write>),
}

impl Waits for Job {
    fn session(&self) -> Option<SessionId> {
        match self {
            Self::Append(job) => job.session(),
            Self::Write(_) => None,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Append(job) => job.size(),
            Self::Write(_) => WRITE,
        }
    }

    fn held(&self) -> usize {
        match self {
            Self::Append(job) => job.held(),
            Self::Write(_) => WRITE,
        }
    }

    fn complete(&mut self, bodies: Staged) {
        if let Self::Append(job) = self {
            job.complete(bodies);
        }
    }
}

impl Job {
    /// Tells the writer that nothing can be written now.
    pub(super) fn fail(self, away: Away) {
        match self {
            Self::Append(job) => job.answer(Err(AppendError::Unavailable(away))),
            Self::Write(write) => write.fail(away),
        }
    }

    /// Tells the writer that this cannot be written, though anything else can.
    pub(super) fn refuse(self, fault: &Fault) {
        match self {
            Self::Append(job) => job.answer(Err(AppendError::Failed(fault.to_string()))),
            Self::Write(write) => write.fail(fault.away()),
        }
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
    fn fail(self: Box<Self>, away: Away);
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

    fn fail(self: Box<Self>, away: Away) {
        drop(self.reply.send(Err(WriteError::Unavailable(away))));
    }
}
