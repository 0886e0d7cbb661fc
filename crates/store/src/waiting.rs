//! Appends as they wait.

use std::sync::Arc;

use outlast_blobs::Away;
use outlast_protocol::id::SessionId;
use outlast_session::Json;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::Instant,
};

use crate::{
    Append, AppendError, WriteError,
    lines::Waits,
    staging::{self, Done, Staged},
};

/// Where the answer to an append comes.
pub(crate) type Answer = oneshot::Receiver<Result<Done, AppendError>>;

/// A proposal that waits.
#[derive(Debug)]
pub(crate) struct AppendJob {
    pub(crate) session: SessionId,
    pub(crate) append: Append,
    /// Its large bodies, once they are in blobs.
    pub(crate) staged: Staged,
    /// Bytes of its bodies that will stand in rows.
    pub(crate) size: usize,
    /// Bytes of its bodies that go to blobs.
    pub(crate) large: usize,
    pub(crate) since: Instant,
    pub(crate) reply: oneshot::Sender<Result<Done, AppendError>>,
}

impl AppendJob {
    /// Makes one; returns with it the large bodies that have to be in blobs before it is decided, and
    /// where its answer comes.
    pub(crate) fn new(session: SessionId, append: Append) -> (Self, Vec<Json>, Answer) {
        let (reply, answer) = oneshot::channel();
        let bodies = staging::large(&append.proposal);
        let job = Self {
            session,
            size: staging::small(&append.proposal),
            large: bodies.iter().map(|body| body.get().len()).sum(),
            append,
            staged: Ok(Vec::new()),
            since: Instant::now(),
            reply,
        };
        (job, bodies, answer)
    }

    /// Answers the proposer, if it is still there.
    pub(crate) fn answer(self, answer: Result<Done, AppendError>) {
        crate::metric_definitions::appended(self.since.elapsed());
        // A proposer that went away withdrew nothing and misses nothing.
        drop(self.reply.send(answer));
    }
}

impl Waits for AppendJob {
    fn session(&self) -> Option<SessionId> {
        Some(self.session)
    }

    fn size(&self) -> usize {
        self.size
    }

    fn held(&self) -> usize {
        self.size.saturating_add(self.large)
    }

    fn complete(&mut self, bodies: Staged) {
        self.staged = bodies;
    }
}

/// Places for those who wait: so many and no more.
#[derive(Clone, Debug)]
pub(crate) struct Waiting(Arc<Semaphore>);

impl Waiting {
    pub(crate) fn new(places: usize) -> Self {
        Self(Arc::new(Semaphore::new(places)))
    }

    /// Takes a place until it is dropped; `None` if all are taken.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_owned().ok()
    }
}

/// Why a write cannot wait here.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum Turned {
    /// Nothing is taken any more.
    #[error("the store is closed")]
    Closed,
    /// As much waits as may.
    #[error("too many writes wait")]
    Full,
    /// As much of this session waits as may.
    #[error("too many writes of session `{0}` wait")]
    Crowded(SessionId),
}

impl From<Turned> for AppendError {
    fn from(turned: Turned) -> Self {
        match turned {
            Turned::Closed => Self::Unavailable(Away::other(turned)),
            Turned::Full => Self::Overloaded,
            Turned::Crowded(session) => Self::Crowded(session),
        }
    }
}

impl From<Turned> for WriteError {
    fn from(turned: Turned) -> Self {
        match turned {
            Turned::Closed => Self::Unavailable(Away::other(turned)),
            // What is no append stands in no session's line.
            Turned::Full | Turned::Crowded(_) => Self::Overloaded,
        }
    }
}
