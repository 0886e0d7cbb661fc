//! Appends that are insisted on: what a brain, a hand or the gateway has to say is not lost because the
//! store was away when it was said.
//!
//! While the disk is full or the database is gone a turn stands still under its lease, and its calls go
//! on in their hands. Each append is proposed again as it was, in the order in which all of the lease
//! were submitted. A brain's is known by its seq and a fact by its key, so one that had reached the log
//! unheard changes nothing. What the log cannot take at all is told to whoever said it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use outlast_protocol::id::SessionId;
use outlast_session::{Answer, Proposal, Refusal};
use outlast_store::{Append, AppendError, Outcome, ReadError};
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::kernel::Inner;

/// The first wait before something is tried again; doubled each time.
const FIRST: Duration = Duration::from_millis(100);

/// The longest wait: so much later at most everything goes on. There are never more attempts than a few
/// for each running turn, and the store takes all of a moment together.
const LONGEST: Duration = Duration::from_millis(500);

/// How long reads are tried again. What cannot be read for longer may never be readable.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whose appends come in order: those of a thread under one epoch.
pub(crate) type Line = (SessionId, u32, u64);

/// Appends that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Mutex<HashMap<Line, Places>>,
    moved: Notify,
}

/// Those of one lease, by the order in which they were submitted.
#[derive(Debug, Default)]
struct Places {
    next: u64,
    open: BTreeSet<u64>,
}

/// The place of an append, until it is answered.
struct Place {
    inner: Arc<Inner>,
    line: Line,
    number: u64,
}

impl Lines {
    fn lines(&self) -> MutexGuard<'_, HashMap<Line, Places>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn last_of(inner: &Arc<Inner>, line: Line) -> Self {
        let mut lines = inner.lines.lines();
        let places = lines.entry(line).or_default();
        let number = places.next;
        places.next += 1;
        places.open.insert(number);
        Self {
            inner: inner.clone(),
            line,
            number,
        }
    }

    fn is_first(&self) -> bool {
        let lines = self.inner.lines.lines();
        let first = lines.get(&self.line).and_then(|line| line.open.first());
        first.is_none_or(|first| *first == self.number)
    }

    /// Waits until all that were submitted before are answered.
    async fn first(&self) {
        loop {
            let moved = self.inner.lines.moved.notified();
            if self.is_first() {
                return;
            }
            moved.await;
        }
    }

    /// Tells whether an append is to be made again.
    ///
    /// One that cannot follow is, as long as one before it is missing.
    fn goes_on(&self, outcome: &Result<Outcome, AppendError>) -> bool {
        let again = match outcome {
            Err(error) if error.may_pass() => true,
            Err(AppendError::Refused(Refusal::Gap { .. } | Refusal::Illegal(_))) => {
                !self.is_first()
            }
            Ok(_) | Err(_) => false,
        };
        again && !self.inner.closing.is_cancelled()
    }

    /// Waits for the moment to make it again; returns whether there is one.
    async fn turn(&self, wait: Duration) -> bool {
        let turn = async {
            sleep(wait).await;
            self.first().await;
        };
        tokio::select! {
            biased;
            () = self.inner.closing.cancelled() => false,
            () = turn => true,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.inner.lines.lines();
        if let Some(places) = lines.get_mut(&self.line) {
            places.open.remove(&self.number);
            if places.open.is_empty() {
                lines.remove(&self.line);
            }
        }
        drop(lines);
        self.inner.lines.moved.notify_waiters();
    }
}

/// What a repeat finds settled was settled by the first attempt, unheard.
fn own(outcome: &mut Result<Outcome, AppendError>) {
    if let Ok(outcome) = outcome
        && outcome.answer == Answer::AlreadySettled
    {
        outcome.answer = Answer::Appended;
    }
}

impl Inner {
    /// Proposes now, and again until the store has answered or the kernel closes, even if nobody waits.
    pub(crate) fn insist(
        self: &Arc<Self>,
        line: Line,
        proposal: Proposal,
    ) -> JoinHandle<Result<Outcome, AppendError>> {
        let place = Place::last_of(self, line);
        let again = move |inner: &Self| {
            let (proposal, receipt) = (proposal.clone(), None);
            inner.store.append(line.0, Append { proposal, receipt })
        };
        let (mut pending, inner) = (again(self), self.clone());
        self.tasks.spawn(async move {
            let mut wait = FIRST;
            loop {
                let mut outcome = pending.await;
                inner.heard(line.0, &outcome, None);
                if !place.goes_on(&outcome) || !place.turn(wait).await {
                    if wait != FIRST {
                        own(&mut outcome);
                    }
                    return outcome;
                }
                wait = LONGEST.min(wait * 2);
                pending = again(&inner);
            }
        })
    }

    /// Reads, and again while the store cannot be read, for a while.
    pub(crate) async fn patiently<T, F>(&self, read: impl Fn() -> F) -> Result<T, ReadError>
    where
        F: Future<Output = Result<T, ReadError>>,
    {
        let (began, mut wait) = (Instant::now(), FIRST);
        loop {
            let read = read().await;
            let away = matches!(read, Err(ReadError::Overloaded | ReadError::Unavailable(_)));
            if !away || began.elapsed() >= PATIENCE {
                return read;
            }
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return read,
                () = sleep(wait) => wait = LONGEST.min(wait * 2),
            }
        }
    }
}
