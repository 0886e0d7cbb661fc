//! The contract of a log.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use futures::future::BoxFuture;
use outlast_blobs::Away;
use outlast_protocol::{
    Micros,
    id::{AgentId, EventId, IncarnationId, ProcessId, SessionId},
};
use outlast_session::{Answer, Kind, Proposal, Record, Refusal, State, Status};
use tokio::sync::watch;

use crate::Receipt;

/// Sessions and their records.
#[async_trait]
pub trait Log: Debug + Send + Sync {
    /// Proposes to append; the answer comes when what was appended is durable.
    ///
    /// Proposals are decided in the order of these calls, without waiting for each other's
    /// answers. Dropping the future withdraws nothing. Followers are told before the answer.
    fn append(&self, session: SessionId, append: Append) -> Pending;

    /// Returns the state at the head.
    async fn head(&self, session: SessionId) -> Result<Arc<State>, ReadError>;

    /// Reads records; what it costs follows the slice, never the log.
    ///
    /// Bodies that lie in blobs are loaded. No transaction outlives the call.
    async fn read(&self, session: SessionId, slice: Slice) -> Result<Vec<Record>, ReadError>;

    /// Finds the record of an event: its place if it has one, else its arrival.
    async fn find(&self, session: SessionId, event: EventId) -> Result<Record, ReadError>;

    /// Returns all records of an event: its arrival, its place.
    async fn of_event(&self, session: SessionId, event: EventId) -> Result<Vec<Record>, ReadError>;

    /// Makes sure that nothing of what was erased is left in files of the store's own, beside blobs
    /// that it noted as loose; waits for those who still read it.
    ///
    /// What a database server keeps is that server's business.
    async fn scrub(&self) -> Result<(), ReadError>;

    /// Returns the last position whose record is not later than `at`; 0 if none is.
    async fn position_at(&self, session: SessionId, at: Micros) -> Result<u64, ReadError>;

    /// Watches the tail: the receiver holds the newest position, [`GONE`] once deleted.
    ///
    /// Register first, then read up to the head, then wait: no record is missed.
    async fn watch(&self, session: SessionId) -> Result<watch::Receiver<u64>, ReadError>;

    /// Lists sessions by time of creation.
    async fn sessions(&self, query: &SessionQuery) -> Result<Listing, ReadError>;

    /// Returns threads that want a brain at `now` and have none, the longest waiting first.
    ///
    /// A thread whose holder is dead is one of them.
    async fn ready(&self, now: Micros, limit: usize) -> Result<Vec<Ready>, ReadError>;

    /// Returns the earliest moment after `now` from which a thread wants a brain.
    async fn next_ready(&self, now: Micros) -> Result<Option<Micros>, ReadError>;

    /// Returns sessions of which something has run out at `now`, the longest ago first.
    async fn overdue(&self, now: Micros, limit: usize) -> Result<Vec<SessionId>, ReadError>;

    /// Returns the earliest moment after `now` at which something runs out.
    async fn next_deadline(&self, now: Micros) -> Result<Option<Micros>, ReadError>;

    /// Returns sessions with a thread that is not at rest, in no order.
    ///
    /// That is: one that a brain holds, that wants one now or later, or that shows itself as
    /// working. A look at them alone costs nothing for sessions at rest.
    async fn unfinished(&self, limit: usize) -> Result<Vec<SessionId>, ReadError>;

    /// Returns those incarnations that a session names which can still go on, with that session.
    ///
    /// An incarnation is named before it is made: one that is there and not among these is nobody's.
    async fn named(
        &self,
        hands: &[IncarnationId],
    ) -> Result<Vec<(IncarnationId, SessionId)>, ReadError>;

    /// Keeps a context snapshot; it can be dropped at any time and made again from the log.
    ///
    /// One that is older than what was erased last is dropped at once.
    async fn save_snapshot(&self, snapshot: Snapshot) -> Result<(), ReadError>;

    /// Returns the newest context snapshot of a thread under this name.
    async fn snapshot(
        &self,
        session: SessionId,
        thread: u32,
        name: &str,
    ) -> Result<Option<Snapshot>, ReadError>;

    /// Removes up to `limit` rows of deleted sessions; returns how many went.
    async fn purge(&self, limit: usize) -> Result<usize, ReadError>;
}

/// What the watched tail of a deleted session holds.
pub const GONE: u64 = u64::MAX;

/// The answer to a proposal, once it is durable.
pub type Pending = BoxFuture<'static, Result<Outcome, AppendError>>;

/// A proposal and what is written along with it.
#[derive(Clone, Debug)]
pub struct Append {
    /// The wish.
    pub proposal: Proposal,
    /// What answers a repeat of the request that it came with.
    pub receipt: Option<Receipt>,
}

/// What came of a proposal.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the writer is told.
    pub answer: Answer,
    /// What was appended, in order; bodies of copies are there too.
    pub records: Arc<[Record]>,
    /// The state after it.
    pub state: Arc<State>,
}

/// Why nothing was appended, or why nobody knows.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    /// No such session, or a deleted one.
    #[error("session `{0}` not found")]
    NotFound(SessionId),
    /// `admit` says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The environment or agent that a new session names is not there.
    #[error("`{0}` not found")]
    Missing(String),
    /// The process that would take a lease was declared dead, and stays so.
    #[error("process `{0}` was declared dead")]
    Dead(ProcessId),
    /// Another attempt of the request was accepted first; its receipt is there.
    #[error("another attempt of the request was accepted first")]
    Answered,
    /// As much waits to be appended as may: nothing was.
    #[error("too many writes wait")]
    Overloaded,
    /// As much of this session waits to be appended as may: nothing was.
    #[error("too many writes of session `{0}` wait")]
    Crowded(SessionId),
    /// The disk is full or fails, the database is away, or the store is closing: nothing was appended,
    /// or nobody knows. The same append may be proposed again.
    #[error("the log cannot be written: {0}")]
    Unavailable(Away),
    /// The log cannot take this append, however well the disk is: nothing was appended.
    #[error("the log cannot take it: {0}")]
    Failed(String),
}

impl AppendError {
    /// Tells whether the same append may succeed in a moment.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Overloaded | Self::Crowded(_) | Self::Unavailable(_) => true,
            Self::NotFound(_)
            | Self::Refused(_)
            | Self::Missing(_)
            | Self::Dead(_)
            | Self::Answered
            | Self::Failed(_) => false,
        }
    }
}

/// Why nothing was read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// No such thing, or a deleted one.
    #[error("`{0}` not found")]
    NotFound(String),
    /// What is stored cannot be understood by this version, or is damaged.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// As many reads wait as may.
    #[error("too many reads wait")]
    Overloaded,
    /// The disk or database fails.
    #[error("the store cannot be read: {0}")]
    Unavailable(Away),
}

impl From<ReadError> for Away {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unavailable(away) => away,
            ReadError::NotFound(_) | ReadError::Unreadable(_) | ReadError::Overloaded => {
                Self::other(error)
            }
        }
    }
}

/// A slice of a log by position.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Positions after this one (forwards) or before it (backwards).
    pub from: u64,
    /// Which way.
    pub order: Order,
    /// At most so many records.
    pub limit: usize,
    /// At most about so many bytes of bodies; at least one record is returned. 0 is no bound.
    pub bytes: usize,
    /// Only events that clients see in their place: no private records, no arrivals.
    pub public: bool,
    /// Only these kinds; empty is all.
    ///
    /// Events and arrivals cost the slice; other kinds cost what lies between them too.
    pub kinds: Vec<Kind>,
    /// Only this thread.
    pub thread: Option<u32>,
}

impl Slice {
    /// Everything after `from`, at most `limit` records.
    pub fn after(from: u64, limit: usize) -> Self {
        let (order, kinds) = (Order::Forwards, Vec::new());
        Self {
            from,
            order,
            limit,
            bytes: 0,
            public: false,
            kinds,
            thread: None,
        }
    }
}

/// Which way a slice or listing goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// Oldest first.
    Forwards,
    /// Newest first.
    Backwards,
}

/// Which sessions to list.
#[derive(Clone, Debug)]
pub struct SessionQuery {
    /// Only of this agent.
    pub agent: Option<AgentId>,
    /// Only of this version of it.
    pub agent_version: Option<u64>,
    /// Only shown with one of these; empty is all.
    pub statuses: Vec<Status>,
    /// Created after (exclusive).
    pub created_gt: Option<Micros>,
    /// Created not before.
    pub created_gte: Option<Micros>,
    /// Created before (exclusive).
    pub created_lt: Option<Micros>,
    /// Created not after.
    pub created_lte: Option<Micros>,
    /// Whether archived ones count.
    pub archived: bool,
    /// Which way.
    pub order: Order,
    /// Sessions behind this one in that order: (creation, id).
    pub after: Option<(Micros, SessionId)>,
    /// At most so many.
    pub limit: usize,
}

/// A page of sessions.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The states at their heads, with their configurations.
    pub sessions: Vec<Arc<State>>,
    /// Whether more follow in the same order.
    pub more: bool,
}

/// A thread that wants a brain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ready {
    /// The session.
    pub session: SessionId,
    /// The thread.
    pub thread: u32,
    /// The dead process that still stands as its holder.
    pub dead: Option<ProcessId>,
}

/// A context as a harness had made it, up to a position.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The session.
    pub session: SessionId,
    /// The thread.
    pub thread: u32,
    /// Who can read it: name and version of a context strategy.
    pub name: String,
    /// The last record that it covers.
    pub position: u64,
    /// What it holds; only its maker knows the form.
    pub body: Vec<u8>,
}
