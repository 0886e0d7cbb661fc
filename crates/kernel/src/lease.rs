//! A brain's right to work on one thread, and all it can do with it.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use outlast_protocol::id::{EventId, ProcessId, SessionId};
use outlast_session::{Fence, Kind, Proposal, Record, State, Step, Thread, body::Claimed};
use outlast_store::{Outcome, Slice, Snapshot};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, watch},
    task::JoinError,
};

use crate::{
    Kernel, LeaseError, Preview, kernel::Inner, life::Halt, metric_definitions as metrics,
};

/// How long to wait before a lease is given back once more.
const AGAIN: Duration = Duration::from_millis(500);

/// Leases that this process won, for whatever brain it runs.
#[derive(Debug)]
pub struct Claims(mpsc::Receiver<Lease>);

impl Claims {
    pub(crate) fn new(receiver: mpsc::Receiver<Lease>) -> Self {
        Self(receiver)
    }

    /// Waits for the next lease; `None` once the kernel is gone.
    pub async fn recv(&mut self) -> Option<Lease> {
        let lease = self.0.recv().await?;
        ::metrics::counter!(metrics::CLAIMS).increment(1);
        Some(lease)
    }
}

/// The lease of a thread.
///
/// Steps are appended in the order of the calls to [`Lease::propose`], each without waiting for
/// the one before. A lease that is dropped gives itself back, and another brain goes on.
pub struct Lease {
    pub(crate) inner: Arc<Inner>,
    session: SessionId,
    thread: u32,
    epoch: u64,
    /// The process that it was claimed for: a later life of this one has nothing of it.
    process: ProcessId,
    /// Whether its brain ended by a fault of its own.
    broken: AtomicBool,
    order: Arc<Mutex<Order>>,
    signal: watch::Receiver<Arc<State>>,
    permit: Option<OwnedSemaphorePermit>,
}

/// The leases that brains of this process hold: (session, thread, epoch), and who claimed them.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<HashMap<(SessionId, u32, u64), ProcessId>>);

impl Leases {
    /// Tells whether a brain of this process has that lease.
    pub(crate) fn has(&self, session: SessionId, thread: u32, epoch: u64) -> bool {
        self.claimant(session, thread, epoch).is_some()
    }

    /// Returns the process that such a brain's lease was claimed for.
    pub(crate) fn claimant(
        &self,
        session: SessionId,
        thread: u32,
        epoch: u64,
    ) -> Option<ProcessId> {
        self.map().get(&(session, thread, epoch)).copied()
    }

    fn map(&self) -> MutexGuard<'_, HashMap<(SessionId, u32, u64), ProcessId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the order of appends stands.
#[derive(Debug, Default)]
struct Order {
    last: u64,
    acked: u64,
}

impl Lease {
    /// Makes the lease that an outcome claimed for this process, if it did.
    pub(crate) fn claimed(
        inner: &Arc<Inner>,
        outcome: &Outcome,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Option<Self> {
        let record = outcome
            .records
            .iter()
            .rfind(|record| record.kind == Kind::Claimed)?;
        let claimed: Claimed = serde_json::from_str(record.body.text()).ok()?;
        let process = claimed.process;
        if !inner.life.is(process) {
            return None;
        }
        let key = (outcome.state.id, record.thread, claimed.epoch);
        inner.leases.map().insert(key, process);
        Some(Self {
            inner: inner.clone(),
            session: outcome.state.id,
            thread: record.thread,
            epoch: claimed.epoch,
            process,
            broken: AtomicBool::new(false),
            order: Arc::default(),
            signal: inner.signals.follow(&outcome.state),
            permit,
        })
    }

    /// Returns the session.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Returns the process that it was claimed for.
    pub(crate) fn process(&self) -> ProcessId {
        self.process
    }

    /// Returns the number of the thread.
    pub fn thread_number(&self) -> u32 {
        self.thread
    }

    /// Returns the fence.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the newest state that this process knows.
    pub fn state(&self) -> Arc<State> {
        self.signal.borrow().clone()
    }

    /// Returns the thread in a state, while this lease still holds it.
    pub fn held<'s>(&self, state: &'s State) -> Option<&'s Thread> {
        let thread = state.thread(self.thread)?;
        let held = thread.epoch == self.epoch && thread.lease.is_some();
        (held && self.inner.life.is(self.process)).then_some(thread)
    }

    /// Waits while this process does not know whether it lives, in which time nothing may begin.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Over`] if it was declared dead.
    pub async fn settled(&self) -> Result<(), LeaseError> {
        Ok(self.inner.life.settled(self.process).await?)
    }

    /// Returns the door that this lease came through.
    pub fn kernel(&self) -> Kernel {
        Kernel(self.inner.clone())
    }

    /// Draws an id for an event that is about to be proposed or previewed.
    pub fn event_id(&self) -> EventId {
        self.inner.event_id()
    }

    /// Appends a step; submitted when this is called, durable when the future is done.
    ///
    /// # Errors
    ///
    /// After any error but [`LeaseError::Unavailable`] the lease is worth nothing.
    pub fn propose(
        &self,
        step: Step,
    ) -> impl Future<Output = Result<Outcome, LeaseError>> + Send + 'static {
        // What a dead process says goes nowhere, not even to be refused.
        let alive = self.inner.life.is(self.process);
        let order = self.order.clone();
        let mut now = order.lock().unwrap_or_else(PoisonError::into_inner);
        now.last += 1;
        let fence = Fence {
            epoch: self.epoch,
            seq: now.last,
            acked: now.acked,
        };
        let proposal = Proposal::Brain {
            thread: self.thread,
            fence,
            step,
        };
        // Submitted under the lock: the order of numbers is the order of proposals.
        let line = (self.session, self.thread, self.epoch);
        let handle = alive.then(|| self.inner.insist(line, proposal));
        drop(now);
        async move {
            let handle = handle.ok_or(Halt::Dead)?;
            let outcome = joined(handle).await?;
            let mut now = order.lock().unwrap_or_else(PoisonError::into_inner);
            now.acked = now.acked.max(fence.seq);
            Ok(outcome)
        }
    }

    /// Reads records of the session.
    pub async fn read(&self, slice: Slice) -> Result<Vec<Record>, LeaseError> {
        let read = || self.inner.store.read(self.session, slice.clone());
        Ok(self.inner.patiently(read).await?)
    }

    /// Shows what is being made to whoever watches; nothing is stored or promised.
    pub fn preview(&self, preview: Preview) {
        self.inner
            .previews
            .publish(self.session, self.thread, preview);
    }

    /// Tells whether anybody watches previews of the thread.
    pub fn is_watched(&self) -> bool {
        self.inner.previews.is_watched(self.session, self.thread)
    }

    /// Waits until an interrupt waits, or the lease is over.
    pub async fn interrupted(&self) {
        let mut signal = self.signal.clone();
        let stop = |state: &Arc<State>| {
            self.held(state)
                .is_none_or(|thread| !thread.interrupts.is_empty())
        };
        // The sender lives as long as a receiver does.
        drop(signal.wait_for(stop).await);
    }

    /// Notes that the brain ends by a fault of its own: as it is given back, that counts against the
    /// turn, which after many such ends is worked on alone and then parked.
    pub fn broke(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Waits until the process wants its leases back.
    pub async fn closing(&self) {
        self.inner.closing.cancelled().await;
    }

    /// Tells whether the process wants its leases back.
    pub fn is_closing(&self) -> bool {
        self.inner.closing.is_cancelled()
    }

    /// Tells whether others wait for a slot, so that a turn that is over should be the last one
    /// under this lease.
    pub fn is_wanted(&self) -> bool {
        self.inner.crowd.waits() && self.inner.slots.available_permits() == 0
    }

    /// Returns the newest context snapshot under `name`.
    pub async fn snapshot(&self, name: &str) -> Result<Option<Snapshot>, LeaseError> {
        let store = &self.inner.store;
        let read = || store.snapshot(self.session, self.thread, name);
        Ok(self.inner.patiently(read).await?)
    }

    /// Keeps a context snapshot; it may be dropped at any time.
    pub async fn save(&self, name: &str, position: u64, body: Vec<u8>) -> Result<(), LeaseError> {
        let (session, thread, name) = (self.session, self.thread, name.to_owned());
        let snapshot = Snapshot {
            session,
            thread,
            name,
            position,
            body,
        };
        Ok(self.inner.store.save_snapshot(snapshot).await?)
    }
}

/// Waits for an append on behalf of a brain.
pub(crate) async fn joined(
    handle: tokio::task::JoinHandle<Result<Outcome, outlast_store::AppendError>>,
) -> Result<Outcome, LeaseError> {
    match handle.await {
        Ok(outcome) => Ok(outcome?),
        Err(fault) => Err(died(fault)),
    }
}

/// Returns what a brain is told of a task that ended without a word.
pub(crate) fn died(fault: JoinError) -> LeaseError {
    if fault.is_panic() {
        LeaseError::Broken(fault.to_string())
    } else {
        LeaseError::Unavailable(fault.to_string())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let key = (self.session, self.thread, self.epoch);
        self.inner.leases.map().remove(&key);
        drop(self.permit.take());
        if self.inner.crowd.waits() {
            // The slot is free only now.
            self.inner.wake.notify_one();
        }
        let state = self.state();
        if self.held(&state).is_none() {
            return;
        }
        let mut now = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        now.last += 1;
        // Whatever became of the steps before: nobody waits for them any more.
        let fence = Fence {
            epoch: self.epoch,
            seq: now.last,
            acked: now.last,
        };
        let (session, thread) = (self.session, self.thread);
        let proposal = Proposal::Brain {
            thread,
            fence,
            step: if self.broken.load(Ordering::Relaxed) {
                Step::Break
            } else {
                Step::Release
            },
        };
        let (inner, process) = (self.inner.clone(), self.process);
        self.inner
            .tasks
            .spawn(give_back(inner, process, session, proposal));
    }
}

/// Gives a lease back, however long the log cannot be written: nobody else could take it, unless its
/// process was declared dead.
async fn give_back(inner: Arc<Inner>, process: ProcessId, session: SessionId, release: Proposal) {
    while inner.life.is(process) {
        let handle = inner.append(session, release.clone(), None, None);
        match handle.await {
            Ok(Err(error)) if error.may_pass() && !inner.closing.is_cancelled() => {
                tokio::time::sleep(AGAIN).await;
            }
            Ok(Ok(_) | Err(_)) | Err(_) => return,
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("session", &self.session)
            .field("thread", &self.thread)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}
