//! Checkpoints of workspaces: when they are taken, and where they go.
//!
//! A hand that did something is packed once its session has been quiet for a moment, before it is let
//! go, and in a long turn every few minutes between two calls. Nothing of it may fail a turn: what
//! goes wrong is logged, counted and tried again.

mod gate;
mod keep;
mod notice;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use outlast_protocol::id::{IncarnationId, SessionId};
use tokio::{
    sync::{OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, Semaphore},
    time::{Instant, sleep},
};

use crate::{kernel::Inner, metric_definitions as metrics};
pub(crate) use gate::Use;
pub(crate) use keep::remove;
pub(crate) use notice::notice;

/// How often hands are looked through.
const TICK: Duration = Duration::from_secs(1);

/// Checkpoints at once: each reads and writes as fast as the disk can.
const AT_ONCE: usize = 2;

/// The wait after a first failure; doubled each time.
const AGAIN: Duration = Duration::from_secs(30);

/// The longest wait after a failure.
const LONGEST: Duration = Duration::from_secs(1_800);

/// Hands that were used.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    hands: Mutex<BTreeMap<IncarnationId, Watched>>,
    slots: Arc<Semaphore>,
}

/// A hand that was used.
#[derive(Debug)]
struct Watched {
    session: SessionId,
    /// Calls hold it shared, a checkpoint holds it alone.
    gate: Arc<RwLock<()>>,
    used: Instant,
    /// When the first call began that no checkpoint has.
    dirty: Option<Instant>,
    /// Whether one is being taken.
    busy: bool,
    failures: u32,
    /// Not tried again before.
    not_before: Option<Instant>,
}

/// A hand whose time has come, and nobody uses it.
#[derive(Debug)]
struct Due {
    session: SessionId,
    incarnation: IncarnationId,
    /// Whether it depends on the session's turn being over.
    at_rest: bool,
    alone: OwnedRwLockWriteGuard<()>,
    _slot: OwnedSemaphorePermit,
}

/// When checkpoints are taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Schedule {
    /// How long a session must have been quiet after its turn; never at rest if absent.
    pub at_rest: Option<Duration>,
    /// How long a turn goes on without one; never within a turn if absent.
    pub within_turns: Option<Duration>,
}

impl Schedule {
    /// Takes none.
    pub const NEVER: Self = Self {
        at_rest: None,
        within_turns: None,
    };
}

impl Checkpoints {
    pub(crate) fn new() -> Self {
        Self {
            hands: Mutex::default(),
            slots: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    fn hands(&self) -> MutexGuard<'_, BTreeMap<IncarnationId, Watched>> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what is known of a hand that is gone, or whose workspace another has by now.
    pub(crate) fn forget(&self, incarnation: IncarnationId) {
        self.hands().remove(&incarnation);
    }

    /// Tells whether no call runs in a hand and nothing of it is being packed.
    pub(crate) fn is_free(&self, incarnation: IncarnationId) -> bool {
        let hands = self.hands();
        let hand = hands.get(&incarnation);
        hand.is_none_or(|hand| hand.gate.try_write().is_ok())
    }

    /// Tells whether a hand may be let go for lying unused: no call runs in it, and what it did is in
    /// a checkpoint, or cannot be brought into one now.
    pub(crate) fn may_rest(&self, incarnation: IncarnationId, schedule: Schedule) -> bool {
        let hands = self.hands();
        let Some(hand) = hands.get(&incarnation) else {
            return true;
        };
        let saved = hand.dirty.is_none() || hand.failures > 0 || schedule.at_rest.is_none();
        saved && hand.gate.try_write().is_ok()
    }

    /// Returns hands whose time has come; `resting` is when unused ones are let go.
    fn due(&self, schedule: Schedule, resting: Duration) -> Vec<Due> {
        let mut hands = self.hands();
        // One that is clean and unused for long will be noted again when it is used.
        hands.retain(|_, hand| {
            hand.dirty.is_some() || hand.is_used() || hand.used.elapsed() < resting
        });
        let all = hands.iter_mut();
        all.filter_map(|(incarnation, hand)| hand.due(*incarnation, schedule, resting, &self.slots))
            .collect()
    }
}

impl Watched {
    fn new(session: SessionId) -> Self {
        Self {
            session,
            gate: Arc::default(),
            used: Instant::now(),
            dirty: None,
            busy: false,
            failures: 0,
            not_before: None,
        }
    }

    /// Tells whether a call runs in it or waits to.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.gate) > 1
    }

    fn due(
        &mut self,
        incarnation: IncarnationId,
        schedule: Schedule,
        resting: Duration,
        slots: &Arc<Semaphore>,
    ) -> Option<Due> {
        let dirty = self.dirty?.elapsed();
        let later = self.not_before.is_some_and(|at| Instant::now() < at);
        if self.busy || later {
            return None;
        }
        let quiet = self.used.elapsed();
        let passed = |since: Duration, bound: Option<Duration>| bound.is_some_and(|b| since >= b);
        let long = passed(dirty, schedule.within_turns);
        let unused = schedule.at_rest.is_some() && quiet >= resting;
        if !(long || unused || passed(quiet, schedule.at_rest)) {
            return None;
        }
        // None free: at the next look.
        let slot = Arc::clone(slots).try_acquire_owned().ok()?;
        // Fails while a call runs; its end looks again.
        let alone = Arc::clone(&self.gate).try_write_owned().ok()?;
        self.busy = true;
        Some(Due {
            session: self.session,
            incarnation,
            at_rest: !(long || unused),
            alone,
            _slot: slot,
        })
    }

    /// Notes how a checkpoint ended.
    fn ended(&mut self, outcome: Outcome) {
        self.busy = false;
        match outcome {
            Outcome::Taken | Outcome::NotNow => {}
            Outcome::Pointless => self.dirty = None,
            Outcome::Failed { since } => {
                self.dirty = self.dirty.or(since);
                let wait = AGAIN.saturating_mul(1 << self.failures.min(10));
                self.not_before = Some(Instant::now() + wait.min(LONGEST));
                self.failures += 1;
                return;
            }
        }
        self.failures = 0;
        self.not_before = None;
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    /// The log names it.
    Taken,
    /// The turn is not over.
    NotNow,
    /// There is nothing to take, or nobody to whom it belongs.
    Pointless,
    /// It failed; what had been done since then is in no checkpoint.
    Failed {
        /// When.
        since: Option<Instant>,
    },
}

impl Outcome {
    fn label(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::NotNow => "not_now",
            Self::Pointless => "pointless",
            Self::Failed { .. } => "failed",
        }
    }
}

/// Takes checkpoints whose time has come, until the kernel closes.
pub(crate) async fn watch(inner: Arc<Inner>) {
    let schedule = inner.options.checkpoints;
    loop {
        tokio::select! {
            biased;
            () = sleep(TICK) => {}
            () = inner.closing.cancelled() => return,
        }
        for due in inner.checkpoints.due(schedule, inner.options.hand_idle) {
            inner.tasks.spawn(attempt(inner.clone(), due));
        }
    }
}

/// Takes one, unless the kernel closes meanwhile; then nothing is left but a loose blob.
async fn attempt(inner: Arc<Inner>, due: Due) {
    let (session, incarnation) = (due.session, due.incarnation);
    let began = Instant::now();
    let taking = keep::take(&inner, due);
    let outcome = tokio::select! {
        biased;
        outcome = taking => outcome,
        () = inner.closing.cancelled() => return,
    };
    if outcome != Outcome::NotNow {
        let label = outcome.label();
        ::metrics::counter!(metrics::CHECKPOINTS, "outcome" => label).increment(1);
        ::metrics::histogram!(metrics::CHECKPOINT).record(began.elapsed().as_secs_f64());
        tracing::debug!(session.id = %session, hand.id = %incarnation, label, "a checkpoint ended");
    }
    if let Some(hand) = inner.checkpoints.hands().get_mut(&incarnation) {
        hand.ended(outcome);
    }
}
