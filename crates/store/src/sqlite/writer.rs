//! The one thread that writes: many proposals, one transaction, one sync.

use std::{collections::HashMap, sync::Arc, time::Duration};

use outlast_protocol::id::SessionId;
use rusqlite::Connection;
use tokio::time::Instant;

use super::{
    Room,
    append::{Pass, unnamed},
    fault::Fault,
    heads::Head,
    job::{AppendJob, Done, Job},
    queue::{Background, Queue, Taken},
};
use crate::{AppendError, GONE, metric_definitions as metrics};

/// A sync that takes longer makes it worth while to wait for others.
const SLOW_SYNC: Duration = Duration::from_millis(1);
/// Quiet after which the log is copied into the database, and nobody waits for that.
const QUIET: Duration = Duration::from_millis(10);
/// Bytes of log that make that worth while; at four times as many a commit does it.
const CHECKPOINT: usize = 1024 * 1024;
/// Bytes of log that one write adds beside its bodies, roughly.
const OVERHEAD: usize = 8 * 1024;
/// How often idle heads are looked for.
const SWEEP: Duration = Duration::from_secs(5);
/// Batches after which work between batches has waited long enough.
const PATIENCE: u32 = 16;

/// The writer with what it learned about the disk.
#[derive(Debug)]
pub(super) struct Writer {
    connection: Connection,
    room: Arc<Room>,
    queue: Arc<Queue>,
    /// Moving average of a commit that synced.
    sync: Duration,
    /// Writes in the batch before this one.
    last: usize,
    /// Whether the disk took the last batch.
    healthy: bool,
    /// Bytes of log since the last checkpoint, roughly.
    log: usize,
    /// Batches since work between batches had its turn.
    batches: u32,
    swept: Instant,
}

/// What came of one write, before it is durable.
#[derive(Debug)]
enum Came {
    Append(Box<AppendJob>, Result<Done, AppendError>),
    Write(Box<dyn super::job::Write>),
}

/// Closes the queue when the writer ends, in whatever way, so that nobody waits for ever.
struct Ends(Arc<Queue>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Writer {
    pub(super) fn new(connection: Connection, room: Arc<Room>, queue: Arc<Queue>) -> Self {
        let (sync, swept) = (Duration::ZERO, Instant::now());
        let (last, log, batches, healthy) = (0, 0, 0, true);
        Self {
            connection,
            room,
            queue,
            sync,
            last,
            healthy,
            log,
            batches,
            swept,
        }
    }

    /// Writes until the queue is closed.
    pub(super) fn run(mut self) {
        let _ends = Ends(self.queue.clone());
        loop {
            let order = if self.batches >= PATIENCE {
                Background::First
            } else {
                Background::Last
            };
            match self.queue.take(self.patience(), order) {
                Taken::Batch(mut batch) => {
                    self.linger(&mut batch);
                    self.last = batch.len();
                    self.batches += 1;
                    self.batch(batch);
                }
                Taken::Background(job) => {
                    self.batches = 0;
                    self.batch(vec![job]);
                }
                Taken::Nothing => self.rest(),
                Taken::Closed => break,
            }
        }
        // What stands in the log alone is as durable; this only makes the next start shorter.
        drop(
            self.connection
                .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"),
        );
    }

    /// Returns how long to wait before there is something to tidy; for ever if there is nothing.
    fn patience(&self) -> Option<Duration> {
        if self.log >= CHECKPOINT {
            Some(QUIET)
        } else if self.room.heads.is_empty() {
            None
        } else {
            Some(SWEEP)
        }
    }

    /// Tidies while nobody waits.
    fn rest(&mut self) {
        if self.log >= CHECKPOINT {
            self.checkpoint();
        }
        if self.swept.elapsed() >= SWEEP {
            self.swept = Instant::now();
            self.room.heads.sweep();
        }
    }

    fn checkpoint(&mut self) {
        self.log = 0;
        if let Err(error) = self
            .connection
            .execute_batch("PRAGMA wal_checkpoint(PASSIVE)")
        {
            tracing::warn!(%error, "the log could not be copied into the database yet");
        }
    }

    /// Waits a little for the other half of the writers, where a sync is dear.
    ///
    /// Without it those who were answered by this batch and those who wait for the next one take
    /// turns, and everybody waits for two syncs. A lone writer never waits.
    fn linger(&self, batch: &mut Vec<Job>) {
        let both = batch.len() + self.last;
        if self.sync > SLOW_SYNC && both > 2 {
            self.queue.linger(batch, both, self.sync / 8);
        }
    }

    /// Commits a batch; where one write spoils it, each of the others gets its own transaction.
    fn batch(&mut self, batch: Vec<Job>) {
        if !self.healthy && !self.recovers() {
            return fail(batch, "the disk does not take writes yet");
        }
        let (batch, fault) = match self.attempt(batch) {
            Ok(()) => return,
            Err(failed) => failed,
        };
        if fault.is_of_the_disk() {
            self.suffer(&fault);
            return fail(batch, &fault.to_string());
        }
        if batch.len() == 1 {
            tracing::error!(error = %fault, "a write failed");
            return fail(batch, &fault.to_string());
        }
        for job in batch {
            self.batch(vec![job]);
        }
    }

    /// Tries a small write, after the disk refused one.
    fn recovers(&mut self) -> bool {
        self.healthy = super::resources::probe(&self.connection).is_ok();
        if self.healthy {
            tracing::info!("the disk takes writes again");
        }
        self.healthy
    }

    /// Notes that the disk refused a batch: what is known of heads is not to be trusted.
    fn suffer(&mut self, fault: &Fault) {
        metrics::failed();
        tracing::error!(error = %fault, "a batch could not be committed");
        self.healthy = false;
        self.room.heads.clear();
    }

    /// Runs a batch in one transaction; gives it back if it was rolled back.
    fn attempt(&mut self, batch: Vec<Job>) -> Result<(), (Vec<Job>, Fault)> {
        if let Err(error) = self.connection.execute_batch("BEGIN IMMEDIATE") {
            return Err((batch, error.into()));
        }
        let room = self.room.clone();
        let mut pass = Pass {
            room: &room,
            transaction: &self.connection,
            moved: HashMap::new(),
        };
        let mut came = Vec::with_capacity(batch.len());
        let mut left = batch.into_iter();
        while let Some(job) = left.next() {
            match take(&mut pass, job) {
                Ok(one) => came.push(one),
                Err((job, fault)) => {
                    let done = came.into_iter().map(Came::back);
                    let batch = done.chain([job]).chain(left).collect();
                    self.roll_back();
                    return Err((batch, fault));
                }
            }
        }
        let moved = pass.moved;
        match self.commit(&came) {
            Ok(()) => {
                self.tell(moved, came);
                Ok(())
            }
            Err(fault) => {
                self.roll_back();
                Err((came.into_iter().map(Came::back).collect(), fault))
            }
        }
    }

    fn commit(&mut self, came: &[Came]) -> Result<(), Fault> {
        let began = Instant::now();
        self.connection
            .execute_batch("COMMIT")
            .map_err(Fault::Commit)?;
        let took = began.elapsed();
        let bytes: usize = came.iter().map(|one| one.size() + OVERHEAD).sum();
        self.log += bytes;
        if self.log > 4 * CHECKPOINT {
            // By now the commit that reached 1,000 pages has done it.
            self.log = 0;
        }
        if came.iter().any(Came::wrote) {
            self.sync = if self.sync.is_zero() {
                took
            } else {
                (self.sync * 7 + took) / 8
            };
            metrics::committed(came.len(), took);
        }
        Ok(())
    }

    fn roll_back(&self) {
        // SQLite may have rolled back by itself already.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    /// Publishes what is durable now: heads, then tails, then answers.
    fn tell(&self, moved: HashMap<SessionId, Head>, came: Vec<Came>) {
        let tails: Vec<_> = moved
            .iter()
            .map(|(id, head)| {
                (
                    *id,
                    if head.state.deleted {
                        GONE
                    } else {
                        head.state.tail
                    },
                )
            })
            .collect();
        let (gone, kept): (Vec<_>, Vec<_>) =
            moved.into_iter().partition(|(_, head)| head.state.deleted);
        self.room.heads.commit(kept);
        for (session, _) in gone {
            self.room.heads.forget(session);
        }
        for (session, tail) in tails {
            self.room.watches.publish(session, tail);
        }
        for one in came {
            match one {
                Came::Append(job, answer) => self.answer(*job, answer),
                Came::Write(write) => write.done(),
            }
        }
    }

    fn answer(&self, job: AppendJob, answer: Result<Done, AppendError>) {
        let records = answer
            .as_ref()
            .map_or(&[][..], |done| &done.outcome.records);
        if let Ok(staged) = &job.staged {
            for digest in unnamed(staged, records) {
                let (bodies, session) = (self.room.loader.bodies.clone(), job.session);
                let drop = async move { bodies.drop(session, digest).await };
                self.room.tasks.spawn_on(drop, &self.room.loader.handle);
            }
        }
        if let Err(error) = &answer {
            metrics::refused(reason(error));
        }
        job.answer(answer);
    }
}

fn fail(batch: Vec<Job>, reason: &str) {
    for job in batch {
        job.fail(reason);
    }
}

fn take(pass: &mut Pass<'_>, job: Job) -> Result<Came, (Job, Fault)> {
    match job {
        Job::Append(job) => match pass.append(&job) {
            Ok(answer) => Ok(Came::Append(job, answer)),
            Err(fault) => Err((Job::Append(job), fault)),
        },
        Job::Write(mut write) => match write.run(pass.transaction) {
            Ok(()) => Ok(Came::Write(write)),
            Err(fault) => Err((Job::Write(write), fault)),
        },
    }
}

impl Came {
    /// Returns the write, for another try.
    fn back(self) -> Job {
        match self {
            Self::Append(job, _) => Job::Append(job),
            Self::Write(write) => Job::Write(write),
        }
    }

    fn wrote(&self) -> bool {
        match self {
            Self::Append(_, answer) => answer
                .as_ref()
                .is_ok_and(|done| !done.outcome.records.is_empty()),
            Self::Write(_) => true,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Append(job, _) => job.size,
            Self::Write(_) => 0,
        }
    }
}

/// Names the reason of a refusal for the metrics.
fn reason(error: &AppendError) -> &'static str {
    use outlast_session::Refusal;
    match error {
        AppendError::NotFound(_) => "not_found",
        AppendError::Missing(_) => "missing",
        AppendError::Unavailable(_) => "unavailable",
        AppendError::Refused(refusal) => match refusal {
            Refusal::Client(_) => "client",
            Refusal::Stale { .. } => "stale",
            Refusal::Gap { .. } => "gap",
            Refusal::Held { .. } => "held",
            Refusal::Illegal(_) => "illegal",
            Refusal::Fold(_) => "fold",
        },
    }
}
