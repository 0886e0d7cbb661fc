//! A store as a process reaches it that may fail at any call, and die of it.

mod audit_log;
mod keys;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use outlast_protocol::{
    Micros,
    id::{EventId, FileId, IncarnationId, ProcessId, SessionId},
};
use outlast_session::{Record, State};
use outlast_store::{
    Append, AppendError, Away, Blob, FilePage, FileQuery, Files, Listing, Log, Pending, Process,
    Pulse, ReadError, Ready, Receipt, Resource, ResourceKind, ResourcePage, ResourceQuery,
    Resources, SealedSecret, Sealing, Secrets, SessionQuery, Slice, Snapshot, StoredFile, Trouble,
    Wards, WriteError,
};
use tokio::sync::watch;

use crate::faults::{Fate, Faults};

/// What is told of a call that was made to fail.
const INJECTED: &str = "a fault was injected";

/// What a store gets wrong: for tests of those who should find out.
pub trait Wrong: fmt::Debug + Send + Sync {
    /// Changes what is proposed.
    fn append(&self, append: Append) -> Append {
        append
    }

    /// Changes what is read.
    fn read(&self, slice: &Slice, records: Vec<Record>) -> Vec<Record> {
        let _ = slice;
        records
    }

    /// Changes what is said to want a brain.
    fn ready(&self, ready: Vec<Ready>) -> Vec<Ready> {
        ready
    }
}

/// Nothing.
#[derive(Debug)]
struct Right;

impl Wrong for Right {}

/// Passes every call on to another store, unless the process dies of it or it fails.
#[derive(Clone, Debug)]
pub struct Mortal<S> {
    inner: S,
    faults: Arc<Faults>,
    wrong: Arc<dyn Wrong>,
}

impl<S> Mortal<S> {
    /// Makes the store of a process.
    pub fn under(inner: S, faults: Arc<Faults>) -> Self {
        let wrong = Arc::new(Right);
        Self {
            inner,
            faults,
            wrong,
        }
    }

    /// Makes it get something wrong.
    #[must_use]
    pub fn with(self, wrong: Arc<dyn Wrong>) -> Self {
        Self { wrong, ..self }
    }

    async fn reading<T>(
        &self,
        name: &'static str,
        doing: impl Future<Output = Result<T, ReadError>>,
    ) -> Result<T, ReadError> {
        let failure = || ReadError::Unavailable(Away::other(INJECTED));
        self.faults.pass(name, doing, failure).await
    }

    async fn writing<T>(
        &self,
        name: &'static str,
        doing: impl Future<Output = Result<T, WriteError>>,
    ) -> Result<T, WriteError> {
        let failure = || WriteError::Unavailable(Away::other(INJECTED));
        self.faults.pass(name, doing, failure).await
    }
}

#[async_trait]
impl<S: Log> Log for Mortal<S> {
    fn append(&self, session: SessionId, append: Append) -> Pending {
        let append = self.wrong.append(append);
        let fate = self.faults.decide("append", Some((session, &append)));
        // Proposed now, in the order of the calls, whenever its answer is waited for.
        let pending = match fate {
            Fate::None | Fate::After | Fate::Unheard => self.inner.append(session, append),
            Fate::Before | Fate::Dead => Box::pin(std::future::pending()),
        };
        let faults = self.faults.clone();
        Box::pin(async move {
            let failure = || AppendError::Unavailable(Away::other(INJECTED));
            faults.finish(fate, pending, failure).await
        })
    }

    async fn head(&self, session: SessionId) -> Result<Arc<State>, ReadError> {
        self.reading("head", self.inner.head(session)).await
    }

    async fn read(&self, session: SessionId, slice: Slice) -> Result<Vec<Record>, ReadError> {
        let doing = self.inner.read(session, slice.clone());
        let records = self.reading("read", doing).await?;
        Ok(self.wrong.read(&slice, records))
    }

    async fn find(&self, session: SessionId, event: EventId) -> Result<Record, ReadError> {
        self.reading("find", self.inner.find(session, event)).await
    }

    async fn of_event(&self, session: SessionId, event: EventId) -> Result<Vec<Record>, ReadError> {
        self.reading("of_event", self.inner.of_event(session, event))
            .await
    }

    async fn scrub(&self) -> Result<(), ReadError> {
        self.reading("scrub", self.inner.scrub()).await
    }

    async fn overdue(&self, now: Micros, limit: usize) -> Result<Vec<SessionId>, ReadError> {
        self.reading("overdue", self.inner.overdue(now, limit))
            .await
    }

    async fn next_deadline(&self, now: Micros) -> Result<Option<Micros>, ReadError> {
        self.reading("next_deadline", self.inner.next_deadline(now))
            .await
    }

    async fn position_at(&self, session: SessionId, at: Micros) -> Result<u64, ReadError> {
        self.reading("position_at", self.inner.position_at(session, at))
            .await
    }

    async fn watch(&self, session: SessionId) -> Result<watch::Receiver<u64>, ReadError> {
        self.reading("watch", self.inner.watch(session)).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Listing, ReadError> {
        self.reading("sessions", self.inner.sessions(query)).await
    }

    async fn ready(&self, now: Micros, limit: usize) -> Result<Vec<Ready>, ReadError> {
        let ready = self.reading("ready", self.inner.ready(now, limit)).await?;
        Ok(self.wrong.ready(ready))
    }

    async fn next_ready(&self, now: Micros) -> Result<Option<Micros>, ReadError> {
        self.reading("next_ready", self.inner.next_ready(now)).await
    }

    async fn unfinished(&self, limit: usize) -> Result<Vec<SessionId>, ReadError> {
        self.reading("unfinished", self.inner.unfinished(limit))
            .await
    }

    async fn named(
        &self,
        hands: &[IncarnationId],
    ) -> Result<Vec<(IncarnationId, SessionId)>, ReadError> {
        self.reading("named", self.inner.named(hands)).await
    }

    async fn save_snapshot(&self, snapshot: Snapshot) -> Result<(), ReadError> {
        self.reading("save_snapshot", self.inner.save_snapshot(snapshot))
            .await
    }

    async fn snapshot(
        &self,
        session: SessionId,
        thread: u32,
        name: &str,
    ) -> Result<Option<Snapshot>, ReadError> {
        self.reading("snapshot", self.inner.snapshot(session, thread, name))
            .await
    }

    async fn purge(&self, limit: usize) -> Result<usize, ReadError> {
        self.reading("purge", self.inner.purge(limit)).await
    }
}

#[async_trait]
impl<S: Resources> Resources for Mortal<S> {
    async fn insert(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        self.writing("insert", self.inner.insert(new, receipt))
            .await
    }

    async fn replace(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        self.writing("replace", self.inner.replace(new, receipt))
            .await
    }

    async fn amend(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        self.writing("amend", self.inner.amend(new, receipt)).await
    }

    async fn get(
        &self,
        kind: ResourceKind,
        id: &str,
        revision: Option<u64>,
    ) -> Result<Resource, ReadError> {
        self.reading("get", self.inner.get(kind, id, revision))
            .await
    }

    async fn list(&self, query: &ResourceQuery) -> Result<ResourcePage, ReadError> {
        self.reading("list", self.inner.list(query)).await
    }

    async fn revisions(
        &self,
        kind: ResourceKind,
        id: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<ResourcePage, ReadError> {
        self.reading("revisions", self.inner.revisions(kind, id, before, limit))
            .await
    }

    async fn remove(&self, kind: ResourceKind, id: &str) -> Result<(), WriteError> {
        self.writing("remove", self.inner.remove(kind, id)).await
    }

    async fn receipt(
        &self,
        fingerprint: [u8; 32],
        since: Micros,
    ) -> Result<Option<Receipt>, ReadError> {
        let doing = self.inner.receipt(fingerprint, since);
        self.reading("receipt", doing).await
    }

    async fn written_out(&self, fingerprint: [u8; 32]) -> Result<(), WriteError> {
        self.writing("written_out", self.inner.written_out(fingerprint))
            .await
    }

    async fn sweep_receipts(&self, before: Micros) -> Result<usize, WriteError> {
        self.writing("sweep_receipts", self.inner.sweep_receipts(before))
            .await
    }

    async fn register(&self, process: ProcessId, at: Micros) -> Result<(), WriteError> {
        self.writing("register", self.inner.register(process, at))
            .await
    }

    async fn beat(&self, process: ProcessId) -> Result<Pulse, WriteError> {
        self.writing("beat", self.inner.beat(process)).await
    }

    async fn processes(&self) -> Result<Vec<Process>, ReadError> {
        self.reading("processes", self.inner.processes()).await
    }

    async fn declare_dead(&self, process: ProcessId) -> Result<(), WriteError> {
        self.writing("declare_dead", self.inner.declare_dead(process))
            .await
    }

    async fn probe(&self) -> Result<(), WriteError> {
        self.writing("probe", self.inner.probe()).await
    }

    fn trouble(&self) -> Option<Trouble> {
        self.inner.trouble()
    }
}

#[async_trait]
impl<S: Files> Files for Mortal<S> {
    async fn begin_blob(&self, blob: Blob, by: ProcessId) -> Result<(), WriteError> {
        self.writing("begin_blob", self.inner.begin_blob(blob, by))
            .await
    }

    async fn drop_blob(&self, blob: Blob) -> Result<bool, WriteError> {
        self.writing("drop_blob", self.inner.drop_blob(blob)).await
    }

    async fn insert_file(
        &self,
        new: StoredFile,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        self.writing("insert_file", self.inner.insert_file(new, receipt))
            .await
    }

    async fn publish_file(&self, new: StoredFile) -> Result<Option<FileId>, WriteError> {
        self.writing("publish_file", self.inner.publish_file(new))
            .await
    }

    async fn file(&self, id: FileId) -> Result<StoredFile, ReadError> {
        self.reading("file", self.inner.file(id)).await
    }

    async fn files(&self, query: &FileQuery) -> Result<FilePage, ReadError> {
        self.reading("files", self.inner.files(query)).await
    }

    async fn outputs(&self, session: SessionId) -> Result<Vec<StoredFile>, ReadError> {
        self.reading("outputs", self.inner.outputs(session)).await
    }

    async fn remove_file(&self, id: FileId) -> Result<(), WriteError> {
        self.writing("remove_file", self.inner.remove_file(id))
            .await
    }

    async fn expire_files(&self, now: Micros, forgotten: Micros) -> Result<usize, WriteError> {
        self.writing("expire_files", self.inner.expire_files(now, forgotten))
            .await
    }

    async fn loose_blobs(&self, limit: usize) -> Result<Vec<Blob>, ReadError> {
        self.reading("loose_blobs", self.inner.loose_blobs(limit))
            .await
    }

    async fn forget_blob(&self, blob: Blob) -> Result<(), WriteError> {
        self.writing("forget_blob", self.inner.forget_blob(blob))
            .await
    }
}

#[async_trait]
impl<S: Secrets> Secrets for Mortal<S> {
    async fn secret(&self, owner: &str) -> Result<Option<SealedSecret>, ReadError> {
        self.reading("secret", self.inner.secret(owner)).await
    }

    async fn replace_secret(&self, new: SealedSecret) -> Result<bool, WriteError> {
        self.writing("replace_secret", self.inner.replace_secret(new))
            .await
    }

    async fn rewrap_secret(&self, from: &str, new: SealedSecret) -> Result<bool, WriteError> {
        self.writing("rewrap_secret", self.inner.rewrap_secret(from, new))
            .await
    }

    async fn remove_secrets(&self, id: &str) -> Result<(), WriteError> {
        self.writing("remove_secrets", self.inner.remove_secrets(id))
            .await
    }

    async fn secrets(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SealedSecret>, ReadError> {
        self.reading("secrets", self.inner.secrets(after, limit))
            .await
    }

    async fn claim_refresh(
        &self,
        owner: &str,
        revision: u64,
        now: Micros,
        until: Micros,
    ) -> Result<bool, WriteError> {
        self.writing(
            "claim_refresh",
            self.inner.claim_refresh(owner, revision, now, until),
        )
        .await
    }

    async fn end_refresh(
        &self,
        owner: &str,
        revision: u64,
        until: Micros,
    ) -> Result<(), WriteError> {
        self.writing(
            "end_refresh",
            self.inner.end_refresh(owner, revision, until),
        )
        .await
    }
}

#[async_trait]
impl<S: Wards> Wards for Mortal<S> {
    async fn insert_ward(
        &self,
        new: Resource,
        secret: SealedSecret,
        most: usize,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        self.writing(
            "insert_ward",
            self.inner.insert_ward(new, secret, most, receipt),
        )
        .await
    }

    async fn replace_ward(
        &self,
        new: Resource,
        secret: Sealing,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        self.writing(
            "replace_ward",
            self.inner.replace_ward(new, secret, receipt),
        )
        .await
    }

    async fn replace_family(
        &self,
        parent: Resource,
        wards: Vec<Resource>,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        self.writing(
            "replace_family",
            self.inner.replace_family(parent, wards, receipt),
        )
        .await
    }
}
