//! The contract of a log, on Postgres.

use std::sync::Arc;

use async_trait::async_trait;
use outlast_blobs::Away;
use outlast_protocol::{
    Micros,
    id::{EventId, IncarnationId, SessionId},
};
use outlast_session::{Json, Record, State};
use tokio::sync::watch;

use super::{
    Postgres, deadlines, fault::Fault, listing, load, queue::Queue, read, ready, rows::array,
    snapshots,
};
use crate::{
    Append, GONE, Listing, Log, Pending, ReadError, Ready, SessionQuery, Slice, Snapshot,
    lines::Ticket,
    staging::{self, Staged, complete, is_away},
    stored::{Stored, shaped},
    waiting::{AppendJob, Turned},
};

#[async_trait]
impl Log for Postgres {
    fn append(&self, session: SessionId, append: Append) -> Pending {
        let (job, bodies, answer) = AppendJob::new(session, append);
        let queued = if bodies.is_empty() {
            self.lane(session).push(job)
        } else {
            self.stage(job, bodies)
        };
        let bodies = self.room.bodies.clone();
        Box::pin(async move {
            queued?;
            let done = answer.await.map_err(|_| Turned::Closed)??;
            complete(session, done, &bodies).await
        })
    }

    async fn head(&self, session: SessionId) -> Result<Arc<State>, ReadError> {
        let connection = self.pool.get().await?;
        let missing = || ReadError::NotFound(session.to_string());
        if let Some(known) = self.room.heads.get(session) {
            // Another node may have moved it.
            let text = "SELECT hash, deleted FROM sessions WHERE id = $1";
            let row = connection.row(text, &[&session.to_string()]).await?;
            let row = row.ok_or_else(missing)?;
            if row.try_get(1)? {
                return Err(missing());
            }
            if array::<32>(row.try_get(0)?)? == known.hash {
                return Ok(known.state);
            }
        }
        let found = load::one(&connection, session, &self.room.bodies).await?;
        let found = found.filter(|head| !head.state.deleted);
        found.map(|head| head.state).ok_or_else(missing)
    }

    async fn read(&self, session: SessionId, slice: Slice) -> Result<Vec<Record>, ReadError> {
        let found = read::slice(&*self.pool.get().await?, session, &slice).await?;
        let mut records = Vec::with_capacity(found.len());
        for stored in found {
            records.push(self.load(session, stored).await?);
        }
        Ok(records)
    }

    async fn find(&self, session: SessionId, event: EventId) -> Result<Record, ReadError> {
        let found = read::find(&*self.pool.get().await?, session, event).await?;
        self.load(session, found).await
    }

    async fn of_event(&self, session: SessionId, event: EventId) -> Result<Vec<Record>, ReadError> {
        let found = read::of_event(&*self.pool.get().await?, session, event).await?;
        let mut records = Vec::with_capacity(found.len());
        for stored in found {
            records.push(self.load(session, stored).await?);
        }
        Ok(records)
    }

    async fn scrub(&self) -> Result<(), ReadError> {
        // Old versions of rows, and the server's own log, are the operator's: docs/cli.md.
        Ok(())
    }

    async fn position_at(&self, session: SessionId, at: Micros) -> Result<u64, ReadError> {
        read::position_at(&*self.pool.get().await?, session, at).await
    }

    async fn watch(&self, session: SessionId) -> Result<watch::Receiver<u64>, ReadError> {
        // Registered first: what is committed from here on is told, and what was before is read.
        let mut receiver = self.room.watches.subscribe(session);
        let tail = self.tail(session).await?;
        self.room.watches.publish(session, tail);
        if receiver.borrow_and_update().to_owned() == GONE {
            return Err(ReadError::NotFound(session.to_string()));
        }
        Ok(receiver)
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Listing, ReadError> {
        listing::sessions(&*self.pool.get().await?, query, &self.room.bodies).await
    }

    async fn ready(&self, now: Micros, limit: usize) -> Result<Vec<Ready>, ReadError> {
        ready::ready(&*self.pool.get().await?, now, limit).await
    }

    async fn next_ready(&self, now: Micros) -> Result<Option<Micros>, ReadError> {
        ready::next(&*self.pool.get().await?, now).await
    }

    async fn overdue(&self, now: Micros, limit: usize) -> Result<Vec<SessionId>, ReadError> {
        deadlines::overdue(&*self.pool.get().await?, now, limit).await
    }

    async fn next_deadline(&self, now: Micros) -> Result<Option<Micros>, ReadError> {
        deadlines::next(&*self.pool.get().await?, now).await
    }

    async fn unfinished(&self, limit: usize) -> Result<Vec<SessionId>, ReadError> {
        ready::unfinished(&*self.pool.get().await?, limit).await
    }

    async fn named(
        &self,
        hands: &[IncarnationId],
    ) -> Result<Vec<(IncarnationId, SessionId)>, ReadError> {
        snapshots::named(&*self.pool.get().await?, hands).await
    }

    async fn save_snapshot(&self, snapshot: Snapshot) -> Result<(), ReadError> {
        if snapshots::save(&*self.pool.get().await?, &snapshot).await? {
            Ok(())
        } else {
            Err(ReadError::NotFound(snapshot.session.to_string()))
        }
    }

    async fn snapshot(
        &self,
        session: SessionId,
        thread: u32,
        name: &str,
    ) -> Result<Option<Snapshot>, ReadError> {
        snapshots::newest(&*self.pool.get().await?, session, thread, name).await
    }

    async fn purge(&self, limit: usize) -> Result<usize, ReadError> {
        self.purge_rows(limit).await
    }
}

/// Lets an append go on when its staging ends, even by a fault of its own.
struct Staging {
    queue: Arc<Queue>,
    ticket: Ticket,
    staged: Staged,
}

impl Staging {
    /// Lets the append go on with what came of putting its bodies away.
    async fn end(mut self, work: impl Future<Output = Staged>) {
        self.staged = work.await;
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let staged = std::mem::replace(&mut self.staged, Ok(Vec::new()));
        self.queue.staged(self.ticket, staged);
    }
}

impl Postgres {
    /// Has the large bodies of an append put into blobs; what follows it in its session waits.
    fn stage(&self, job: AppendJob, large: Vec<Json>) -> Result<(), Turned> {
        let session = job.session;
        let queue = self.lane(session).clone();
        let staging = Staging {
            ticket: queue.push_staging(job)?,
            queue,
            staged: Err(Away::other("the body was not put into a blob")),
        };
        let (bodies, entropy) = (self.room.bodies.clone(), self.room.seams.entropy.clone());
        let work = staging.end(staging::stage(session, large, bodies, entropy));
        self.room.tasks.spawn_on(work, &self.room.runtime);
        Ok(())
    }

    async fn tail(&self, session: SessionId) -> Result<u64, ReadError> {
        Ok(read::tail(&*self.pool.get().await?, session).await?.1)
    }

    /// Loads the body of a record, if it lies in a blob.
    async fn load(&self, session: SessionId, stored: Stored) -> Result<Record, ReadError> {
        let record = stored.record;
        if !is_away(&record.body, record.salt.as_ref()) {
            return Ok(record);
        }
        match self.room.bodies.get(session, &record.digest).await {
            Ok(body) => Ok(Record {
                body: shaped(record.kind, record.version, body)?,
                ..record
            }),
            Err(error) => {
                // A session that was deleted meanwhile loses its bodies; that is no damage.
                self.tail(session).await?;
                // Nor is it if the body was erased meanwhile.
                let slice = Slice::after(record.position.saturating_sub(1), 1);
                let again = read::slice(&*self.pool.get().await?, session, &slice).await?;
                match again.into_iter().next() {
                    Some(again) if again.record.salt.is_none() => Ok(again.record),
                    Some(_) | None => Err(Fault::from(error).into()),
                }
            }
        }
    }
}
