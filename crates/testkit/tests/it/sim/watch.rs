//! Looks at every append: prefix, chain, fold, what the log tells, who goes on, no call twice.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use outlast_protocol::id::{EventId, SessionId};
use outlast_session::{Kind, Record, State, fold};
use outlast_store::{Outcome, Verifier, verify};
use outlast_testkit::ledger::{Ledger, compare};
use tokio::sync::Notify;

use crate::{
    parallel::words,
    sim::world::{Runs, World},
};

/// What is known of all sessions of a world.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    inner: Arc<Mutex<Inner>>,
    moved: Arc<Notify>,
}

#[derive(Debug)]
struct Inner {
    seen: BTreeMap<SessionId, Seen>,
    wrong: Vec<String>,
    runs: Runs,
}

/// What is known of one session.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) records: Vec<Record>,
    pub(crate) state: Arc<State>,
    verifier: Verifier,
    folded: State,
    ledger: Ledger,
}

impl Watcher {
    /// Looks at every append to the store of a world from now on.
    pub(crate) fn new(world: &World) -> Self {
        let inner = Inner {
            seen: BTreeMap::new(),
            wrong: Vec::new(),
            runs: world.runs.clone(),
        };
        let watcher = Self {
            inner: Arc::new(Mutex::new(inner)),
            moved: Arc::default(),
        };
        let looking = watcher.clone();
        world.memory.observe(move |outcome| looking.look(outcome));
        watcher
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes something that must not be.
    pub(crate) fn wrong(&self, what: impl Into<String>) {
        self.lock().wrong.push(what.into());
    }

    /// Returns what must not be and is.
    pub(crate) fn found(&self) -> Vec<String> {
        self.lock().wrong.clone()
    }

    /// Returns all sessions, deleted ones too.
    pub(crate) fn sessions(&self) -> Vec<(SessionId, Seen)> {
        let inner = self.lock();
        inner
            .seen
            .iter()
            .map(|(id, seen)| (*id, seen.clone()))
            .collect()
    }

    /// Returns the messages of the agent of a session.
    pub(crate) fn spoken(&self, id: SessionId) -> Vec<EventId> {
        let inner = self.lock();
        let records = inner.seen.get(&id).map_or(&[][..], |seen| &seen.records);
        let spoken = records
            .iter()
            .filter(|record| record.kind == Kind::AgentMessage);
        spoken.filter_map(|record| record.event).collect()
    }

    /// Returns the ids of all sessions.
    pub(crate) fn ids(&self) -> Vec<SessionId> {
        self.lock().seen.keys().copied().collect()
    }

    /// Waits for the next append from now on.
    pub(crate) fn moved(&self) -> impl Future<Output = ()> + use<> {
        self.moved.clone().notified_owned()
    }

    /// Returns a session as it was after the last append to it.
    pub(crate) fn session(&self, id: SessionId) -> Option<Arc<State>> {
        self.lock().seen.get(&id).map(|seen| seen.state.clone())
    }

    /// Looks at one append. It runs inside of the store, where a panic would only be another fault.
    fn look(&self, outcome: &Outcome) {
        let id = outcome.state.id;
        let mut inner = self.lock();
        let Inner { seen, runs, .. } = &mut *inner;
        let looked = catch_unwind(AssertUnwindSafe(|| {
            let known = seen.entry(id).or_insert_with(|| Seen::new(outcome));
            known.add(outcome);
            known.once(runs);
        }));
        if let Err(panic) = looked {
            let words = words(&*panic);
            inner.wrong.push(format!("session `{id}`: {words}"));
        }
        self.moved.notify_waiters();
    }

    /// Compares the whole of every log with what was seen of it: nothing was changed since.
    pub(crate) async fn finish(&self, world: &World) {
        for (id, seen) in self.sessions() {
            if seen.state.deleted {
                continue;
            }
            let log = world.log(id).await;
            if let Err(broken) = verify(id, &log) {
                self.wrong(format!("session `{id}`: {broken}"));
            }
            let hashes = |log: &[Record]| log.iter().map(|record| record.hash).collect::<Vec<_>>();
            if hashes(&log) != hashes(&seen.records) {
                self.wrong(format!(
                    "session `{id}`: what was appended is not what is there"
                ));
            }
        }
    }
}

impl Seen {
    fn new(outcome: &Outcome) -> Self {
        Self {
            records: Vec::new(),
            state: outcome.state.clone(),
            verifier: Verifier::new(outcome.state.id),
            folded: State::blank(outcome.state.id),
            ledger: Ledger::default(),
        }
    }

    fn add(&mut self, outcome: &Outcome) {
        for record in outcome.records.iter() {
            self.verifier.check(record).unwrap();
            fold(&mut self.folded, &record.entry()).unwrap();
            self.ledger.read(&record.entry());
            self.records.push(record.clone());
        }
        self.state = outcome.state.clone();
        assert_eq!(self.folded, *self.state, "the state is no fold");
        compare(&self.ledger, &self.state);
    }

    /// No call of the last response ran twice.
    fn once(&self, runs: &Runs) {
        let runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
        for call in self.state.threads.iter().flat_map(|thread| &thread.calls) {
            let runs = runs.get(&call.id).copied().unwrap_or(0);
            assert!(runs <= 1, "call `{}` ran {runs} times", call.id);
        }
    }
}
