//! A lane: one connection that appends, one round after another.
//!
//! A round takes whatever waits, decides it from the heads at hand, and sends it in one flight. A
//! head that had moved is read again, and what failed by it is decided anew; nobody outside hears
//! of that.

mod doubt;
mod found;
mod plan;
mod round;
mod rows;
mod send;
mod sides;
mod statement;

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use outlast_blobs::{Away, Teller};
use tokio::time::{Instant, sleep};

use self::{
    doubt::Doubt,
    plan::{Group, Plan},
};
use super::{
    Room,
    carry::Slot,
    connect::{Connection, Connector, Durability},
    fault::Fault,
    queue::Queue,
};
use crate::{
    AppendError, GONE, heads::Head, metric_definitions as metrics, staging::unnamed,
    waiting::AppendJob,
};

/// How long an append waits for a database that is away.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long an append waits behind others that the database does not answer.
const LATE: Duration = Duration::from_secs(10);

/// Statements here are few and always the same, and arrays are short.
const SETTINGS: &str = "SET plan_cache_mode = 'force_generic_plan'; SET enable_hashjoin = off; \
                        SET enable_mergejoin = off; SET enable_seqscan = off; \
                        SET enable_bitmapscan = off";

/// The task of a lane.
#[derive(Debug)]
pub(super) struct Lane {
    room: Arc<Room>,
    queue: Arc<Queue>,
    connector: Connector,
    connection: Option<Connection>,
    /// What is to be decided, again or for the first time.
    groups: VecDeque<Group>,
    /// What was sent, and nobody knows what became of it.
    doubts: Vec<Doubt>,
    /// Tries to connect since it last succeeded.
    tries: u32,
    /// Tells the operator of a full disk.
    teller: Teller,
}

/// Fails what waits when a lane ends, in whatever way.
struct Ends(Arc<Queue>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Lane {
    fn new(room: Arc<Room>, queue: Arc<Queue>, connector: Connector) -> Self {
        Self {
            room,
            queue,
            connector,
            connection: None,
            groups: VecDeque::new(),
            doubts: Vec::new(),
            tries: 0,
            teller: Teller::default(),
        }
    }

    /// Appends until the queue is closed; this task carries its connection too.
    pub(super) async fn run(room: Arc<Room>, queue: Arc<Queue>) {
        let slot = Arc::new(Slot::default());
        let connector = room.connector.carried_in(slot.clone());
        slot.beside(Self::new(room, queue, connector).work()).await;
    }

    async fn work(mut self) {
        let _ends = Ends(self.queue.clone());
        loop {
            let holds = !self.groups.is_empty() || !self.doubts.is_empty();
            let Some(jobs) = self.queue.take(holds).await else {
                break;
            };
            let late = expire(self.queue.clone());
            tokio::select! {
                biased;
                () = self.step(jobs) => {}
                never = late => match never {},
            }
        }
        let reason = "the store is closed";
        for group in self.groups.drain(..) {
            fail(group.jobs, &away(reason));
        }
        for doubt in self.doubts.drain(..) {
            let reason = "the store was closed before it was known what became of it";
            fail(doubt.plan.group.jobs, &away(reason));
        }
    }

    /// Does what there is to do, once.
    async fn step(&mut self, jobs: Vec<AppendJob>) {
        self.merge(jobs);
        let connection = match self.connected().await {
            Ok(connection) => connection,
            Err(fault) => return self.wait(&fault).await,
        };
        if let Err(fault) = self.round(&connection).await {
            self.suffer(&fault).await;
        }
        if !connection.is_closed() {
            self.connection = Some(connection);
        }
    }

    /// Puts appends behind those of their sessions that wait already.
    fn merge(&mut self, jobs: Vec<AppendJob>) {
        for job in jobs {
            let mut known = self.groups.iter_mut().rev();
            match known.find(|group| group.session == job.session && !group.alone) {
                Some(group) => group.jobs.push(job),
                None => self.groups.push_back(Group {
                    session: job.session,
                    jobs: vec![job],
                    tries: 0,
                    alone: false,
                }),
            }
        }
    }

    /// Returns the connection, made anew where it broke.
    async fn connected(&mut self) -> Result<Connection, Fault> {
        if let Some(connection) = self.connection.take().filter(|known| !known.is_closed()) {
            return Ok(connection);
        }
        let connection = self.connector.connect(Durability::Synced).await?;
        connection.batch(SETTINGS).await?;
        if self.tries > 0 {
            tracing::info!("the database can be written again");
        }
        self.tries = 0;
        Ok(connection)
    }

    /// Waits before the next try to connect; what has waited too long is told so.
    async fn wait(&mut self, fault: &Fault) {
        if self.tries == 0 {
            metrics::failed();
            tracing::error!(error = %fault, "the database cannot be written");
        }
        self.tries += 1;
        self.expire(fault);
        sleep(self.room.connector.backoff(self.tries)).await;
    }

    /// Answers what has waited too long, in the order of each session.
    fn expire(&mut self, fault: &Fault) {
        let now = Instant::now();
        let mut kept = VecDeque::new();
        for mut group in self.groups.drain(..) {
            let old = |job: &AppendJob| now.saturating_duration_since(job.since) >= PATIENCE;
            let count = group.jobs.iter().take_while(|job| old(job)).count();
            let left = group.jobs.split_off(count);
            fail(group.jobs, &fault.into());
            if !left.is_empty() {
                kept.push_back(Group {
                    jobs: left,
                    ..group
                });
            }
        }
        self.groups = kept;
    }

    /// A round that read or looked something up could not go on: nothing of it was sent.
    async fn suffer(&mut self, fault: &Fault) {
        tracing::warn!(error = %fault, "a round of appends could not be decided");
        self.tries += 1;
        self.expire(fault);
        sleep(self.room.connector.backoff(self.tries)).await;
    }

    /// Puts a group back, to be decided again from a head that is read anew.
    fn again(&mut self, group: Group) {
        self.room.heads.forget(group.session);
        // In front of what came after it.
        self.groups.push_front(group);
    }

    /// Tells everybody of an append that is durable: heads, then tails, then answers.
    fn tell(&self, plan: Plan, no: i64) {
        let session = plan.group.session;
        if let Some(write) = &plan.write {
            let (tail, deleted) = (write.state.tail, write.state.deleted);
            if deleted {
                self.room.heads.forget(session);
            } else {
                let head = Head {
                    no,
                    state: write.state.clone(),
                    hash: write.hash,
                };
                self.room.heads.commit([(session, head)]);
            }
            if !write.records.is_empty() {
                let told = if deleted { GONE } else { tail };
                self.room.watches.publish(session, told);
                self.room.notifier.tell(session, told);
            }
        }
        self.answer(plan);
    }

    /// Answers the proposers.
    fn answer(&self, plan: Plan) {
        let Plan { group, answers, .. } = plan;
        for (job, answer) in group.jobs.into_iter().zip(answers) {
            let records = answer
                .as_ref()
                .map_or(&[][..], |done| &done.outcome.records);
            if let Ok(staged) = &job.staged {
                for digest in unnamed(staged, records) {
                    let (bodies, session) = (self.room.bodies.clone(), job.session);
                    let drop = async move { bodies.drop(session, digest).await };
                    self.room.tasks.spawn(drop);
                }
            }
            if let Err(error) = &answer {
                metrics::refused(error);
            }
            job.answer(answer);
        }
    }
}

fn away(reason: &str) -> AppendError {
    AppendError::Unavailable(Away::other(reason))
}

/// Tells what waits for a lane that does not get on, for ever.
async fn expire(queue: Arc<Queue>) -> Infallible {
    loop {
        sleep(LATE / 4).await;
        queue.expire(LATE, "the database does not answer");
    }
}

fn fail(jobs: Vec<AppendJob>, error: &AppendError) {
    for job in jobs {
        job.answer(Err(error.clone()));
    }
}
