//! The one thread that writes: many proposals, one transaction, one sync.

mod batch;

use std::{sync::Arc, time::Duration};

use outlast_blobs::{Away, Teller};
use rusqlite::Connection;
use tokio::time::Instant;

use super::{
    Room,
    job::Job,
    queue::{Background, Queue, Taken},
};

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
    /// Why the disk took no batch, until it takes one.
    trouble: Option<Away>,
    /// Tells the operator of a full disk.
    teller: Teller,
    /// Bytes of log since the last checkpoint, roughly.
    log: usize,
    /// Batches since work between batches had its turn.
    batches: u32,
    swept: Instant,
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
        let (last, log, batches) = (0, 0, 0);
        Self {
            connection,
            room,
            queue,
            sync,
            last,
            trouble: None,
            teller: Teller::default(),
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
        self.leave();
        // What stands in the log alone is as durable; this only makes the next start shorter.
        drop(
            self.connection
                .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"),
        );
    }

    /// Writes the lines of the audit log that are left.
    fn leave(&mut self) {
        self.batch(Vec::new());
        for line in self.queue.audit() {
            tracing::error!(?line, "the audit log could not be written before the end");
        }
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
}
