//! What waits for the writer, in the order it was asked for.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::job::Job;
use crate::{
    AuditLine,
    lines::{Batch, Bounds, Lines, Ticket},
    staging::Staged,
    waiting::{AppendJob, Turned},
};

/// What one transaction takes.
const BATCH: Batch = Batch {
    writes: 512,
    share: 32,
    bytes: 4 << 20,
};
/// What may wait; past this the store is overloaded and says so.
const WAITING: Bounds = Bounds {
    writes: 65_536,
    of_one: 4_096,
    bytes: 256 << 20,
};

/// How long a write that can ride along waits for company.
const RIDE: Duration = Duration::from_millis(20);

/// How long lines of the audit log wait for company that say what came of a request, or that the disk
/// did not take.
const LATER: Duration = Duration::from_secs(1);

/// Lines of the audit log that may wait.
const LINES: usize = 65_536;

/// Hands writes to the writer thread.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    signal: Condvar,
}

#[derive(Debug)]
struct Inner {
    lines: Lines<Job>,
    /// Work that only goes between batches.
    background: VecDeque<Job>,
    /// Work that needs no commit of its own: it goes with the next batch.
    riders: VecDeque<Job>,
    /// Lines of the audit log: they go with whatever transaction begins next.
    audit: VecDeque<AuditLine>,
    /// From when on those who ride wait.
    riding: Option<Instant>,
    closed: bool,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            lines: Lines::new(WAITING),
            background: VecDeque::new(),
            riders: VecDeque::new(),
            audit: VecDeque::new(),
            riding: None,
            closed: false,
        }
    }
}

/// What the writer finds.
#[derive(Debug)]
pub(super) enum Taken {
    /// Writes for one transaction.
    Batch(Vec<Job>),
    /// A write that is in no hurry.
    Background(Job),
    /// Nothing, for as long as it wanted to wait.
    Nothing,
    /// Nothing more will come; whatever waited is dropped.
    Closed,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what waits, unless nothing more may wait.
    fn open(&self) -> Result<MutexGuard<'_, Inner>, Turned> {
        let inner = self.lock();
        inner.admits()?;
        Ok(inner)
    }

    /// Adds a write.
    pub(super) fn push(&self, job: Job) -> Result<(), Turned> {
        self.open()?.lines.push(job)?;
        self.signal.notify_one();
        Ok(())
    }

    /// Adds an append behind those of its session.
    pub(super) fn push_append(&self, job: AppendJob) -> Result<(), Turned> {
        self.push(Job::Append(Box::new(job)))
    }

    /// Adds an append whose bodies are being put into blobs; [`Queue::staged`] lets it go on.
    pub(super) fn push_staging(&self, job: AppendJob) -> Result<Ticket, Turned> {
        let job = Job::Append(Box::new(job));
        self.open()?.lines.push_staging(job)
    }

    /// Adds a write that only goes between batches.
    pub(super) fn push_background(&self, job: Job) -> Result<(), Turned> {
        self.open()?.background.push_back(job);
        self.signal.notify_one();
        Ok(())
    }

    /// Adds a write that goes with the next batch, or after a short while by itself.
    pub(super) fn push_rider(&self, job: Job) -> Result<(), Turned> {
        let mut inner = self.open()?;
        inner.riders.push_back(job);
        inner.board(Instant::now());
        drop(inner);
        self.signal.notify_one();
        Ok(())
    }

    /// Adds lines of the audit log: whatever is added later is written with them or after them.
    pub(super) fn push_audit(&self, lines: Vec<AuditLine>) -> Result<(), Turned> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(Turned::Closed);
        }
        if inner.audit.len() + lines.len() > LINES {
            return Err(Turned::Full);
        }
        let now = Instant::now();
        let entries = |line: &AuditLine| matches!(line, AuditLine::Entry(_));
        // What came of a request was waited for by nobody, so it waits longest for company.
        if lines.iter().any(entries) {
            inner.board(now);
        } else {
            inner.board(now + (LATER - RIDE));
        }
        inner.audit.extend(lines);
        drop(inner);
        self.signal.notify_one();
        Ok(())
    }

    /// Returns the lines of the audit log that are to be written now; they stay until they are.
    pub(super) fn audit(&self) -> Vec<AuditLine> {
        self.lock().audit.iter().cloned().collect()
    }

    /// Takes away the first lines, which are written.
    pub(super) fn audited(&self, count: usize) {
        self.lock().audit.drain(..count);
    }

    /// Lets lines that could not be written wait, unless something else is written before.
    pub(super) fn audit_later(&self) {
        let mut inner = self.lock();
        if !inner.audit.is_empty() {
            inner.riding = None;
            inner.board(Instant::now() + (LATER - RIDE));
        }
    }

    /// Lets an append go on, and those behind it.
    pub(super) fn staged(&self, ticket: Ticket, bodies: Staged) {
        self.lock().lines.staged(ticket, bodies);
        self.signal.notify_one();
    }

    /// Takes what waits, or waits up to `patience` for it; work between batches only if `idle`.
    pub(super) fn take(&self, patience: Option<Duration>, background: Background) -> Taken {
        let mut inner = self.lock();
        let deadline = patience.map(|patience| Instant::now() + patience);
        loop {
            if inner.closed {
                return Taken::Closed;
            }
            if background == Background::First
                && let Some(job) = inner.background.pop_front()
            {
                return Taken::Background(job);
            }
            if inner.lines.is_ready() {
                return Taken::Batch(inner.batch());
            }
            if let Some(job) = inner.background.pop_front() {
                return Taken::Background(job);
            }
            let boarding = inner.riding.map(|since| since + RIDE);
            if boarding.is_some_and(|end| end <= Instant::now()) {
                return Taken::Batch(inner.batch());
            }
            inner = match deadline.into_iter().chain(boarding).min() {
                None => self
                    .signal
                    .wait(inner)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() && boarding.is_none_or(|end| until < end) {
                        return Taken::Nothing;
                    }
                    let waited = self.signal.wait_timeout(inner, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Waits until `wanted` writes are in `batch`, or `patience` is over; adds what came.
    pub(super) fn linger(&self, batch: &mut Vec<Job>, wanted: usize, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut inner = self.lock();
        loop {
            inner.lines.fill(batch, BATCH);
            let left = deadline.saturating_duration_since(Instant::now());
            if batch.len() >= wanted.min(BATCH.writes) || left.is_zero() || inner.closed {
                return;
            }
            let waited = self.signal.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes nothing more; what waits is dropped, and so its writers are told.
    pub(super) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        let waiting = (
            inner.lines.clear(),
            std::mem::take(&mut inner.background),
            std::mem::take(&mut inner.riders),
        );
        drop(inner);
        drop(waiting);
        self.signal.notify_all();
    }
}

/// Whether the writer looks at work between batches first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Background {
    /// It has waited long enough.
    First,
    /// Only if nothing else waits.
    Last,
}

impl Inner {
    fn admits(&self) -> Result<(), Turned> {
        if self.closed {
            return Err(Turned::Closed);
        }
        // Beside those in the lines, which have a bound of their own.
        let aside = self.background.len() + self.riders.len();
        if self.lines.len() + aside >= WAITING.writes {
            Err(Turned::Full)
        } else {
            Ok(())
        }
    }

    /// Has somebody wait for company since a moment.
    fn board(&mut self, since: Instant) {
        self.riding = Some(self.riding.map_or(since, |first| first.min(since)));
    }

    fn batch(&mut self) -> Vec<Job> {
        let most = (self.lines.len() + self.riders.len()).min(BATCH.writes);
        let mut batch = Vec::with_capacity(most);
        self.lines.fill(&mut batch, BATCH);
        while batch.len() < BATCH.writes
            && let Some(rider) = self.riders.pop_front()
        {
            batch.push(rider);
        }
        if self.riders.is_empty() {
            self.riding = None;
        }
        batch
    }
}

#[cfg(test)]
mod tests;
