//! The contract of plain resources: agents, environments, processes, receipts.

use std::fmt::Debug;

use async_trait::async_trait;
use outlast_blobs::Away;
use outlast_protocol::{
    Micros,
    id::{ProcessId, SessionId},
};
use outlast_session::Json;

use crate::{Order, ReadError, Trouble};

/// Everything that is not a log.
#[async_trait]
pub trait Resources: Debug + Send + Sync {
    /// Stores a new object as revision 1, with the receipt of its request in the same transaction.
    async fn insert(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError>;

    /// Replaces an object at revision `new.revision - 1`; the revision before stays readable.
    ///
    /// The object stays as old as it was, whatever `new.created_at` says.
    async fn replace(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError>;

    /// Replaces the newest revision, `new.revision`, by another form of itself.
    ///
    /// For changes that make no revision, as archiving an agent makes no version of it.
    async fn amend(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError>;

    /// Returns an object at its newest revision or at the one named.
    async fn get(
        &self,
        kind: ResourceKind,
        id: &str,
        revision: Option<u64>,
    ) -> Result<Resource, ReadError>;

    /// Lists objects by time of creation.
    async fn list(&self, query: &ResourceQuery) -> Result<ResourcePage, ReadError>;

    /// Lists the revisions of an object, newest first, those before `before` only.
    async fn revisions(
        &self,
        kind: ResourceKind,
        id: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<ResourcePage, ReadError>;

    /// Removes an object that no session references; what belongs to it goes too, with all secrets.
    async fn remove(&self, kind: ResourceKind, id: &str) -> Result<(), WriteError>;

    /// Returns what was answered to a request, unless it is older than `since`.
    async fn receipt(
        &self,
        fingerprint: [u8; 32],
        since: Micros,
    ) -> Result<Option<Receipt>, ReadError>;

    /// Notes that an answer was written out whole, so that no retry of it is to be expected.
    ///
    /// It costs no sync of its own where it can go along with another write, so it may take some
    /// hundredths of a second.
    async fn written_out(&self, fingerprint: [u8; 32]) -> Result<(), WriteError>;

    /// Drops receipts older than `before`.
    async fn sweep_receipts(&self, before: Micros) -> Result<usize, WriteError>;

    /// Registers this process.
    ///
    /// Whoever holds a data directory is alone there, so every other process of this node is
    /// declared dead by it; on a store that only one process can open, that is everybody else.
    async fn register(&self, process: ProcessId, at: Micros) -> Result<(), WriteError>;

    /// Says that a process lives. One that was declared dead, or was never registered, is told so,
    /// and nothing makes it live again.
    async fn beat(&self, process: ProcessId) -> Result<Pulse, WriteError>;

    /// Lists the processes that are known; a dead one is forgotten once no thread names it.
    async fn processes(&self) -> Result<Vec<Process>, ReadError>;

    /// Declares a process dead: its leases can be taken at once, and it can take none.
    ///
    /// What it appends under a lease that it still has is refused only once that was taken.
    async fn declare_dead(&self, process: ProcessId) -> Result<(), WriteError>;

    /// Fails unless the store can be written and read now.
    async fn probe(&self) -> Result<(), WriteError>;

    /// Returns how a write failed last that the disk or the database did not take, of whatever it was:
    /// appends, objects, secrets, files, the audit log. That one is refused by what it says is no trouble.
    fn trouble(&self) -> Option<Trouble>;
}

/// A process that takes leases.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Process {
    /// Which.
    pub id: ProcessId,
    /// Where it runs: the node's own name, empty on a store that has one node.
    pub node: String,
    /// How often it said that it lives; whoever watches compares this against a clock of its own.
    pub beats: u64,
    /// Whether it was declared dead.
    pub dead: bool,
}

/// What a process that says that it lives is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pulse {
    /// It lives.
    Alive,
    /// Others think otherwise, and that counts.
    Dead,
}

/// Logs, resources, files, keys, secrets and the audit log in one place.
pub trait Store:
    crate::Log
    + Resources
    + crate::Files
    + crate::Keys
    + crate::Secrets
    + crate::Wards
    + crate::AuditLog
{
}

impl<T> Store for T where
    T: crate::Log
        + Resources
        + crate::Files
        + crate::Keys
        + crate::Secrets
        + crate::Wards
        + crate::AuditLog
{
}

/// What an object is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ResourceKind {
    /// An agent; its revisions are its versions.
    Agent,
    /// An environment.
    Environment,
    /// A vault.
    Vault,
    /// A credential of a vault.
    Credential,
}

impl ResourceKind {
    /// Returns the kind of what objects of this kind belong to.
    pub fn parent(self) -> Option<Self> {
        match self {
            Self::Agent | Self::Environment | Self::Vault => None,
            Self::Credential => Some(Self::Vault),
        }
    }
}

/// An object as it is stored.
#[derive(Clone, Debug)]
pub struct Resource {
    /// What it is.
    pub kind: ResourceKind,
    /// Its id.
    pub id: String,
    /// From 1, one more with every change.
    pub revision: u64,
    /// When it was made.
    pub created_at: Micros,
    /// When it was archived.
    pub archived_at: Option<Micros>,
    /// The whole object.
    pub body: Json,
    /// The id of what it belongs to; never changes.
    pub parent: Option<String>,
    /// What of its parent's objects only one may have that is not archived; never changes.
    pub unique_key: Option<String>,
}

/// Which objects to list.
#[derive(Clone, Debug)]
pub struct ResourceQuery {
    /// Of this kind.
    pub kind: ResourceKind,
    /// Of this parent only.
    pub parent: Option<String>,
    /// Created not before.
    pub created_gte: Option<Micros>,
    /// Created not after.
    pub created_lte: Option<Micros>,
    /// Whether archived ones count.
    pub archived: bool,
    /// Which way.
    pub order: Order,
    /// Objects behind this one in that order: (creation, id).
    pub after: Option<(Micros, String)>,
    /// At most so many.
    pub limit: usize,
}

/// A page of objects.
#[derive(Clone, Debug)]
pub struct ResourcePage {
    /// The objects.
    pub items: Vec<Resource>,
    /// Whether more follow in the same order.
    pub more: bool,
}

/// What answers a repeat of an accepted request.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// The request: key, method, path and body bytes, or its `Idempotency-Key`; hashed.
    pub fingerprint: [u8; 32],
    /// The attempt that was accepted, from 0.
    pub attempt: u32,
    /// When.
    pub at: Micros,
    /// Whether the answer is known to be written out whole.
    pub written: bool,
    /// The answer.
    pub reply: Reply,
    /// Which receipts of the same request make this one superfluous; only asked while it is
    /// written, and not kept.
    pub unless: Unless,
}

/// Which receipts of the same request keep another one from being accepted.
///
/// Whoever accepts requests looks for receipts first; this is for those that another node writes
/// after that look.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Unless {
    /// None: it is a wish of its own, and its receipt takes the place of what is there.
    #[default]
    Never,
    /// Those of later attempts that were accepted after this one came; or before it, but not before
    /// this moment, if their answer may be lost: it is their original, which was held up.
    Later(Micros),
    /// Those of other attempts, not older than this, whose answer may be lost.
    Other(Micros),
    /// All that are not older than this.
    Any(Micros),
}

impl Receipt {
    /// Tells whether a receipt that is there keeps this one from being written.
    pub fn yields_to(&self, known: &Self) -> bool {
        let (attempt, at) = (known.attempt, known.at);
        match self.unless {
            Unless::Never => false,
            Unless::Later(since) => {
                let late = !known.written && at >= since;
                attempt > self.attempt && (at > self.at || late)
            }
            Unless::Other(since) => !known.written && attempt != self.attempt && at >= since,
            Unless::Any(since) => at >= since,
        }
    }
}

/// The answer of an accepted request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// These bytes.
    Body(String),
    /// What these records of a session say; the store fills the positions in.
    Records {
        /// The session.
        session: SessionId,
        /// The first record that the request appended.
        first: u64,
        /// The last.
        last: u64,
    },
}

/// Why nothing was written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// No such object.
    #[error("`{0}` not found")]
    NotFound(String),
    /// The object is at another revision.
    #[error("`{id}` is at revision {revision}")]
    Moved {
        /// Which.
        id: String,
        /// Its revision.
        revision: u64,
    },
    /// Nothing can be added to it any more.
    #[error("`{0}` is archived")]
    Archived(String),
    /// Another active object of the same parent, this one, has its unique key.
    #[error("`{0}` has it already")]
    Taken(String),
    /// The parent has as many active ones as may be.
    #[error("there are {0} already")]
    Full(usize),
    /// Sessions still name it.
    #[error("`{0}` is still referenced by a session")]
    Referenced(String),
    /// Another attempt of the request was accepted first; its receipt is there.
    #[error("another attempt of the request was accepted first")]
    Answered,
    /// As many writes wait as may.
    #[error("too many writes wait")]
    Overloaded,
    /// The disk is full or fails, or the store is closing.
    #[error("the store cannot be written: {0}")]
    Unavailable(Away),
}

impl From<WriteError> for Away {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Unavailable(away) => away,
            WriteError::NotFound(_)
            | WriteError::Moved { .. }
            | WriteError::Archived(_)
            | WriteError::Taken(_)
            | WriteError::Full(_)
            | WriteError::Referenced(_)
            | WriteError::Answered
            | WriteError::Overloaded => Self::other(error),
        }
    }
}

impl From<WriteError> for ReadError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::NotFound(id) => Self::NotFound(id),
            WriteError::Overloaded => Self::Overloaded,
            WriteError::Moved { .. }
            | WriteError::Archived(_)
            | WriteError::Taken(_)
            | WriteError::Full(_)
            | WriteError::Referenced(_)
            | WriteError::Unavailable(_)
            | WriteError::Answered => Self::Unavailable(error.into()),
        }
    }
}
