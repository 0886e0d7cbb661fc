//! What waits for the writer, in the order it was asked for.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use outlast_protocol::id::SessionId;
use tokio::time::Instant;

use super::job::Job;
use crate::{
    staging::Staged,
    waiting::{AppendJob, Turned},
};

/// Writes that one transaction takes at most.
const BATCH: usize = 512;
/// Bytes of bodies that one transaction takes, unless a single write has more.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Writes that may wait; past this the store is overloaded and says so.
const WAITING: usize = 65_536;

/// How long a write that can ride along waits for company.
const RIDE: Duration = Duration::from_millis(20);

/// Hands writes to the writer thread.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    signal: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    ready: VecDeque<Job>,
    /// Work that only goes between batches.
    background: VecDeque<Job>,
    /// Work that needs no commit of its own: it goes with the next batch.
    riders: VecDeque<Job>,
    /// When the first of those came.
    riding: Option<Instant>,
    /// Sessions with a body on its way to a blob: what follows it waits, so that order is kept.
    lanes: HashMap<SessionId, VecDeque<Held>>,
    held: usize,
    next: u64,
    closed: bool,
}

#[derive(Debug)]
struct Held {
    job: AppendJob,
    staging: Option<u64>,
}

/// Names an append whose bodies are on their way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    session: SessionId,
    number: u64,
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

    /// Adds a write.
    pub(super) fn push(&self, job: Job) -> Result<(), Turned> {
        let mut inner = self.lock();
        inner.admits()?;
        inner.ready.push_back(job);
        drop(inner);
        self.signal.notify_one();
        Ok(())
    }

    /// Adds an append behind those of its session that still wait for a body.
    pub(super) fn push_append(&self, job: AppendJob) -> Result<(), Turned> {
        let mut inner = self.lock();
        inner.admits()?;
        if let Some(lane) = inner.lanes.get_mut(&job.session) {
            lane.push_back(Held { job, staging: None });
            inner.held += 1;
            return Ok(());
        }
        inner.ready.push_back(Job::Append(Box::new(job)));
        drop(inner);
        self.signal.notify_one();
        Ok(())
    }

    /// Adds an append whose bodies are being put into blobs; [`Queue::staged`] lets it go on.
    pub(super) fn push_staging(&self, job: AppendJob) -> Result<Ticket, Turned> {
        let mut inner = self.lock();
        inner.admits()?;
        let (session, number) = (job.session, inner.next);
        inner.next += 1;
        inner.held += 1;
        let lane = inner.lanes.entry(session).or_default();
        lane.push_back(Held {
            job,
            staging: Some(number),
        });
        Ok(Ticket { session, number })
    }

    /// Adds a write that only goes between batches.
    pub(super) fn push_background(&self, job: Job) -> Result<(), Turned> {
        let mut inner = self.lock();
        inner.admits()?;
        inner.background.push_back(job);
        drop(inner);
        self.signal.notify_one();
        Ok(())
    }

    /// Adds a write that goes with the next batch, or after a short while by itself.
    pub(super) fn push_rider(&self, job: Job) -> Result<(), Turned> {
        let mut inner = self.lock();
        inner.admits()?;
        inner.riders.push_back(job);
        inner.riding.get_or_insert_with(Instant::now);
        drop(inner);
        self.signal.notify_one();
        Ok(())
    }

    /// Lets an append go on, and those behind it.
    pub(super) fn staged(&self, ticket: Ticket, bodies: Staged) {
        let mut inner = self.lock();
        let Inner {
            lanes, ready, held, ..
        } = &mut *inner;
        let Some(lane) = lanes.get_mut(&ticket.session) else {
            return;
        };
        if let Some(held) = lane
            .iter_mut()
            .find(|held| held.staging == Some(ticket.number))
        {
            held.staging = None;
            held.job.staged = bodies;
        }
        while lane.front().is_some_and(|held| held.staging.is_none()) {
            if let Some(front) = lane.pop_front() {
                *held -= 1;
                ready.push_back(Job::Append(Box::new(front.job)));
            }
        }
        if lane.is_empty() {
            lanes.remove(&ticket.session);
        }
        drop(inner);
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
            if !inner.ready.is_empty() {
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
            inner.fill(batch);
            let left = deadline.saturating_duration_since(Instant::now());
            if batch.len() >= wanted.min(BATCH) || left.is_zero() || inner.closed {
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
            std::mem::take(&mut inner.ready),
            std::mem::take(&mut inner.background),
            std::mem::take(&mut inner.riders),
            std::mem::take(&mut inner.lanes),
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
        let waiting = self.ready.len() + self.background.len() + self.riders.len() + self.held;
        if waiting >= WAITING {
            Err(Turned::Full)
        } else {
            Ok(())
        }
    }

    fn batch(&mut self) -> Vec<Job> {
        let mut batch = Vec::with_capacity((self.ready.len() + self.riders.len()).min(BATCH));
        self.fill(&mut batch);
        while batch.len() < BATCH
            && let Some(rider) = self.riders.pop_front()
        {
            batch.push(rider);
        }
        if self.riders.is_empty() {
            self.riding = None;
        }
        batch
    }

    fn fill(&mut self, batch: &mut Vec<Job>) {
        let mut bytes: usize = batch.iter().map(Job::size).sum();
        while let Some(front) = self.ready.front() {
            let full = batch.len() >= BATCH || bytes + front.size() > BATCH_BYTES;
            if full && !batch.is_empty() {
                return;
            }
            bytes += front.size();
            batch.extend(self.ready.pop_front());
        }
    }
}

#[cfg(test)]
mod tests;
