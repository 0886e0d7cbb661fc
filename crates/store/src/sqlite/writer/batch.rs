//! One batch: one transaction, one sync, and then everybody is told.

use std::{collections::HashMap, path::Path};

use outlast_blobs::{Away, lacks_room};
use outlast_protocol::id::SessionId;
use tokio::time::Instant;

use super::{CHECKPOINT, OVERHEAD, Writer};
use crate::{
    AppendError, GONE,
    heads::Head,
    metric_definitions as metrics,
    sqlite::{
        append::Pass,
        audit_log,
        fault::Fault,
        job::{Job, Write},
        resources,
    },
    staging::{Done, unnamed},
    waiting::AppendJob,
};

/// What came of one write, before it is durable.
#[derive(Debug)]
enum Came {
    Append(Box<AppendJob>, Result<Done, AppendError>),
    Write(Box<dyn Write>),
}

impl Writer {
    /// Commits a batch; where one write spoils it, each of the others gets its own transaction.
    pub(super) fn batch(&mut self, batch: Vec<Job>) {
        if let Err(away) = self.recover() {
            self.queue.audit_later();
            return fail(batch, &away);
        }
        let (batch, fault) = match self.attempt(batch) {
            Ok(()) => return self.well(),
            Err(failed) => failed,
        };
        if fault.is_of_the_disk() {
            let away = self.suffer(&fault);
            self.queue.audit_later();
            return fail(batch, &away);
        }
        if batch.is_empty() {
            tracing::error!(error = %fault, "the audit log cannot be written");
            return self.queue.audit_later();
        }
        if batch.len() == 1 {
            tracing::error!(error = %fault, "a write failed");
            return batch.into_iter().for_each(|job| job.refuse(&fault));
        }
        for job in batch {
            self.batch(vec![job]);
        }
    }

    /// Tries a small write, after the disk refused one.
    fn recover(&mut self) -> Result<(), Away> {
        if self.trouble.is_none() {
            return Ok(());
        }
        resources::probe(&self.connection)
            .map(drop)
            .map_err(|fault| {
                let away = self.look(&fault);
                self.trouble = Some(away.clone());
                self.room.troubles.met(away.lack);
                away
            })
    }

    /// Notes that the disk took a batch.
    fn well(&mut self) {
        self.room.troubles.over();
        match self.trouble.take() {
            Some(away) if away.is_full() => self.teller.room(&self.directory().display()),
            Some(_) => tracing::info!("the disk takes writes again"),
            None => {}
        }
    }

    /// Notes that the disk refused a batch: what is known of heads is not to be trusted.
    fn suffer(&mut self, fault: &Fault) -> Away {
        metrics::failed();
        let away = self.look(fault);
        if !away.is_full() {
            tracing::error!(error = %fault, "a batch could not be committed");
        }
        self.trouble = Some(away.clone());
        self.room.troubles.met(away.lack);
        self.room.heads.clear();
        away
    }

    /// Finds out what is wrong with the disk. For the database a quota that is used up, and a full disk
    /// that shows in a sync, is a write that failed.
    fn look(&self, fault: &Fault) -> Away {
        let directory = self.directory();
        let mut away = fault.away();
        if !away.is_full() && lacks_room(directory) {
            away = Away::full(away);
        }
        if away.is_full() {
            self.teller.full(&directory.display(), &away);
        }
        away
    }

    fn directory(&self) -> &Path {
        let file = self.connection.path().map(Path::new);
        file.and_then(Path::parent)
            .unwrap_or_else(|| Path::new("."))
    }

    /// Runs a batch in one transaction; gives it back if it was rolled back.
    ///
    /// What is in it was asked for after the lines of the audit log that wait by then, so they go first.
    fn attempt(&mut self, batch: Vec<Job>) -> Result<(), (Vec<Job>, Fault)> {
        let lines = self.queue.audit();
        if batch.is_empty() && lines.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.connection.execute_batch("BEGIN IMMEDIATE") {
            return Err((batch, error.into()));
        }
        if let Err(fault) = audit_log::write(&self.connection, &lines) {
            self.roll_back();
            return Err((batch, fault));
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
                self.queue.audited(lines.len());
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
            metrics::refused(error);
        }
        job.answer(answer);
    }
}

fn fail(batch: Vec<Job>, away: &Away) {
    for job in batch {
        job.fail(away.clone());
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
