//! The contract of a log, on `SQLite`.

use std::sync::Arc;

use async_trait::async_trait;
use outlast_blobs::Away;
use outlast_protocol::{
    Micros,
    id::{EventId, IncarnationId, SessionId},
};
use outlast_session::{Record, State};
use tokio::sync::watch;

use super::{Sqlite, deadlines, listing, load, named, read, ready, snapshots, stage::Staging};
use crate::{
    Append, GONE, Listing, Log, Pending, ReadError, Ready, SessionQuery, Slice, Snapshot,
    staging::{self, complete, is_away},
    stored::{Stored, shaped},
    waiting::{AppendJob, Turned},
};

#[async_trait]
impl Log for Sqlite {
    fn append(&self, session: SessionId, append: Append) -> Pending {
        let (job, bodies, answer) = AppendJob::new(session, append);
        let queued = if bodies.is_empty() {
            self.queue.push_append(job)
        } else {
            self.stage(job, bodies)
        };
        let bodies = self.room.loader.bodies.clone();
        Box::pin(async move {
            queued?;
            let done = answer.await.map_err(|_| Turned::Closed)??;
            complete(session, done, &bodies).await
        })
    }

    async fn head(&self, session: SessionId) -> Result<Arc<State>, ReadError> {
        if let Some(head) = self.room.heads.get(session) {
            return Ok(head.state);
        }
        let loader = self.room.loader.clone();
        let found = self
            .readers
            .read(move |tx| Ok(load::head(tx, session, &loader)?))
            .await?;
        match found {
            Some(head) if !head.state.deleted => Ok(head.state),
            Some(_) | None => Err(ReadError::NotFound(session.to_string())),
        }
    }

    async fn read(&self, session: SessionId, slice: Slice) -> Result<Vec<Record>, ReadError> {
        let found = self
            .readers
            .read(move |tx| read::slice(tx, session, &slice))
            .await?;
        let mut records = Vec::with_capacity(found.len());
        for stored in found {
            records.push(self.load(session, stored).await?);
        }
        Ok(records)
    }

    async fn find(&self, session: SessionId, event: EventId) -> Result<Record, ReadError> {
        let found = self
            .readers
            .read(move |tx| read::find(tx, session, event))
            .await?;
        self.load(session, found).await
    }

    async fn of_event(&self, session: SessionId, event: EventId) -> Result<Vec<Record>, ReadError> {
        let found = self
            .readers
            .read(move |tx| read::of_event(tx, session, event))
            .await?;
        let mut records = Vec::with_capacity(found.len());
        for stored in found {
            records.push(self.load(session, stored).await?);
        }
        Ok(records)
    }

    async fn scrub(&self) -> Result<(), ReadError> {
        self.scrub_file().await
    }

    async fn position_at(&self, session: SessionId, at: Micros) -> Result<u64, ReadError> {
        self.readers
            .read(move |tx| read::position_at(tx, session, at))
            .await
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
        let (query, loader) = (query.clone(), self.room.loader.clone());
        self.readers
            .read(move |tx| listing::sessions(tx, &query, &loader))
            .await
    }

    async fn ready(&self, now: Micros, limit: usize) -> Result<Vec<Ready>, ReadError> {
        self.readers
            .read(move |tx| ready::ready(tx, now, limit))
            .await
    }

    async fn next_ready(&self, now: Micros) -> Result<Option<Micros>, ReadError> {
        self.readers.read(move |tx| ready::next(tx, now)).await
    }

    async fn overdue(&self, now: Micros, limit: usize) -> Result<Vec<SessionId>, ReadError> {
        self.readers
            .read(move |tx| deadlines::overdue(tx, now, limit))
            .await
    }

    async fn next_deadline(&self, now: Micros) -> Result<Option<Micros>, ReadError> {
        self.readers.read(move |tx| deadlines::next(tx, now)).await
    }

    async fn unfinished(&self, limit: usize) -> Result<Vec<SessionId>, ReadError> {
        self.readers
            .read(move |tx| ready::unfinished(tx, limit))
            .await
    }

    async fn named(
        &self,
        hands: &[IncarnationId],
    ) -> Result<Vec<(IncarnationId, SessionId)>, ReadError> {
        let hands = hands.to_owned();
        self.readers.read(move |tx| named::named(tx, &hands)).await
    }

    async fn save_snapshot(&self, snapshot: Snapshot) -> Result<(), ReadError> {
        Ok(self.write(move |tx| snapshots::save(tx, &snapshot)).await?)
    }

    async fn snapshot(
        &self,
        session: SessionId,
        thread: u32,
        name: &str,
    ) -> Result<Option<Snapshot>, ReadError> {
        let name = name.to_owned();
        self.readers
            .read(move |tx| snapshots::newest(tx, session, thread, &name))
            .await
    }

    async fn purge(&self, limit: usize) -> Result<usize, ReadError> {
        self.purge_rows(limit).await
    }
}

impl Sqlite {
    /// Has the large bodies of an append put into blobs; what follows it in its session waits.
    fn stage(&self, job: AppendJob, large: Vec<outlast_session::Json>) -> Result<(), Turned> {
        let session = job.session;
        let ticket = self.queue.push_staging(job)?;
        let (queue, bodies) = (self.queue.clone(), self.room.loader.bodies.clone());
        let entropy = self.room.seams.entropy.clone();
        let staged = Err(Away::other("the body was not put into a blob"));
        let staging = Staging {
            queue,
            ticket,
            staged,
        };
        let staging = staging.end(staging::stage(session, large, bodies, entropy));
        self.room.tasks.spawn_on(staging, &self.room.loader.handle);
        Ok(())
    }

    async fn tail(&self, session: SessionId) -> Result<u64, ReadError> {
        if let Some(head) = self.room.heads.get(session) {
            return Ok(head.state.tail);
        }
        self.readers
            .read(move |tx| Ok(read::tail(tx, session)?.1))
            .await
    }

    /// Loads the body of a record, if it lies in a blob.
    async fn load(&self, session: SessionId, stored: Stored) -> Result<Record, ReadError> {
        let record = stored.record;
        if !is_away(&record.body, record.salt.as_ref()) {
            return Ok(record);
        }
        match self.room.loader.bodies.get(session, &record.digest).await {
            Ok(body) => Ok(Record {
                body: shaped(record.kind, record.version, body)?,
                ..record
            }),
            Err(error) => {
                // A session that was deleted meanwhile loses its bodies; that is no damage.
                self.tail(session).await?;
                // Nor is it if the body was erased meanwhile.
                let slice = Slice::after(record.position.saturating_sub(1), 1);
                let again = self
                    .readers
                    .read(move |tx| read::slice(tx, session, &slice))
                    .await?;
                match again.into_iter().next() {
                    Some(again) if again.record.salt.is_none() => Ok(again.record),
                    Some(_) | None => Err(super::Fault::from(error).into()),
                }
            }
        }
    }
}
