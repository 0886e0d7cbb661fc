//! A store in memory: the same contract, no threads, no files, no time of its own.

mod append;
mod audit_log;
mod damage;
mod era;
mod files;
mod intake;
mod keys;
mod log;
mod resources;
mod secrets;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use outlast_protocol::{
    Micros,
    id::{EventId, FileId, ProcessId, SessionId},
    seam::{Clock, Entropy},
};
use outlast_session::{Record, Rules, State};
use outlast_store::{
    Blob, Outcome, Process, Receipt, Resource, ResourceKind, Snapshot, StoredFile,
};
use tokio::sync::watch;

pub use era::Era;

/// Logs and resources in memory.
///
/// An append is decided and answered in the call that proposes it, so runs are repeatable and a
/// paused clock stands still. Cheap to clone; all clones are one store.
#[derive(Clone)]
pub struct Memory {
    seams: Arc<Seams>,
    inner: Arc<Mutex<Inner>>,
    /// Whose processes end with each other's start.
    node: Arc<str>,
    observer: Arc<Mutex<Option<Box<Observer>>>>,
}

/// Sees what every append came to, in the order of the log.
type Observer = dyn FnMut(&Outcome) + Send;

#[derive(Clone)]
struct Seams {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    rules: Rules,
    takes_system: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    era: Option<Era>,
}

#[derive(Debug, Default)]
struct Inner {
    logs: BTreeMap<SessionId, Session>,
    objects: BTreeMap<(&'static str, String), Vec<Resource>>,
    keys: Vec<keys::Kept>,
    audit: audit_log::Kept,
    receipts: BTreeMap<[u8; 32], Receipt>,
    processes: BTreeMap<ProcessId, Process>,
    files: BTreeMap<FileId, StoredFile>,
    loose: BTreeMap<Blob, Option<ProcessId>>,
    secrets: BTreeMap<String, secrets::Held>,
}

#[derive(Debug)]
struct Session {
    /// At the index before its position stands each.
    records: Vec<Record>,
    /// The index of the record of each event, its place rather than its arrival.
    events: BTreeMap<EventId, usize>,
    state: Arc<State>,
    /// One for each who watches: a runtime wakes those who share one in any order.
    tails: Vec<watch::Sender<u64>>,
    /// When each thread that wants a brain began to.
    since: BTreeMap<u32, Micros>,
    snapshots: BTreeMap<(u32, String), Snapshot>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Memory {
    /// Makes an empty store with the usual bounds, whose models all take `system.message`.
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self::with_rules(clock, entropy, Rules::default())
    }

    /// Makes an empty store with other bounds.
    pub fn with_rules(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>, rules: Rules) -> Self {
        let takes_system = Arc::new(|_: &str| true);
        let seams = Arc::new(Seams {
            clock,
            entropy,
            rules,
            takes_system,
            era: None,
        });
        Self {
            seams,
            inner: Arc::default(),
            node: Arc::default(),
            observer: Arc::default(),
        }
    }

    /// Returns the same store as another node has it.
    #[must_use]
    pub fn on(&self, node: &str) -> Self {
        Self {
            node: node.into(),
            ..self.clone()
        }
    }

    /// Has a function look at every append that was not refused, before its writer hears of it.
    pub fn observe(&self, observer: impl FnMut(&Outcome) + Send + 'static) {
        *self.observer() = Some(Box::new(observer));
    }

    fn observer(&self) -> MutexGuard<'_, Option<Box<Observer>>> {
        self.observer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn word(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Agent => "agent",
        ResourceKind::Environment => "environment",
        ResourceKind::Vault => "vault",
        ResourceKind::Credential => "credential",
    }
}

impl Inner {
    /// Returns a session that is not deleted.
    fn live(&self, session: SessionId) -> Option<&Session> {
        self.logs.get(&session).filter(|log| !log.state.deleted)
    }

    /// Tells whether a process is known and was not declared dead.
    fn lives(&self, process: ProcessId) -> bool {
        self.processes.get(&process).is_some_and(|row| !row.dead)
    }

    fn newest(&self, kind: ResourceKind, id: &str) -> Option<&Resource> {
        self.objects.get(&(word(kind), id.to_owned()))?.last()
    }
}
