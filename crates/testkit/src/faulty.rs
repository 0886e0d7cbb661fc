//! A store that loses appends, or their answers, where a test says so.

mod audit_log;
mod keys;

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

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

/// What happens to an append.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Fault {
    /// Nothing unusual.
    #[default]
    None,
    /// It fails, and nothing is appended.
    Before,
    /// It is appended, and its writer is told that it failed.
    After,
    /// As much waits as may, and nothing is appended.
    Full,
    /// As much of its session waits as may, and nothing is appended.
    Crowded,
    /// Its writer is dead: nothing is appended, and nobody hears of it.
    Dead,
    /// Its writer died waiting: it is appended, and nobody hears of it.
    Unheard,
    /// It reaches the store so much later.
    Late(Duration),
}

/// Decides about an append, which is the n-th from 1.
type Hook = dyn FnMut(u64, SessionId, &Append) -> Fault + Send;

/// Passes everything on to another store but for the appends that are to fail.
pub struct Faulty<S> {
    inner: S,
    count: AtomicU64,
    silent: AtomicBool,
    hook: Mutex<Box<Hook>>,
    away: Mutex<Option<Away>>,
}

impl<S: fmt::Debug> fmt::Debug for Faulty<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<S> Faulty<S> {
    /// Makes a store without a fault.
    pub fn new(inner: S) -> Self {
        let hook: Box<Hook> = Box::new(|_, _, _| Fault::None);
        Self {
            inner,
            count: AtomicU64::new(0),
            silent: AtomicBool::new(false),
            hook: Mutex::new(hook),
            away: Mutex::default(),
        }
    }

    /// Makes every append and every note of a blob fail, or lets them succeed again.
    pub fn away(&self, away: bool) {
        self.lacks(away.then(|| Away::other(AWAY)));
    }

    /// Makes the same fail, and probes too, for such a reason; or lets them succeed again.
    pub fn lacks(&self, away: Option<Away>) {
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = away;
    }

    fn here(&self) -> Result<(), WriteError> {
        let away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        away.clone()
            .map_or(Ok(()), |away| Err(WriteError::Unavailable(away)))
    }

    /// Lets the append that is the n-th from now on, counted from 1, meet a fault.
    pub fn fail_at(&self, n: u64, fault: Fault) {
        let at = self.appends() + n;
        self.hook(move |number, _, _| if number == at { fault } else { Fault::None });
    }

    /// Lets a function decide about every append; it replaces what decided before.
    pub fn hook(&self, hook: impl FnMut(u64, SessionId, &Append) -> Fault + Send + 'static) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(hook);
    }

    /// Loses beats and all that is asked of processes from now on, or no more.
    pub fn silence(&self, silent: bool) {
        self.silent.store(silent, Ordering::SeqCst);
    }

    fn hear(&self) -> Result<(), WriteError> {
        if self.silent.load(Ordering::SeqCst) {
            let words = "processes are not heard";
            return Err(WriteError::Unavailable(Away::other(words)));
        }
        Ok(())
    }

    /// Returns how many appends were proposed.
    pub fn appends(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Returns the store behind it.
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

const AWAY: &str = "a fault was injected";

fn lost() -> AppendError {
    AppendError::Unavailable(Away::other(AWAY))
}

#[async_trait]
impl<S: Log + Clone + 'static> Log for Faulty<S> {
    fn append(&self, session: SessionId, append: Append) -> Pending {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let fault = {
            let mut hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner);
            hook(number, session, &append)
        };
        if let Err(away) = self.here() {
            return Box::pin(async move { Err(AppendError::Unavailable(away.into())) });
        }
        match fault {
            Fault::None => self.inner.append(session, append),
            Fault::Before => Box::pin(async { Err(lost()) }),
            Fault::Full => Box::pin(async { Err(AppendError::Overloaded) }),
            Fault::Crowded => Box::pin(async move { Err(AppendError::Crowded(session)) }),
            Fault::Dead => Box::pin(std::future::pending()),
            Fault::Unheard => {
                let pending = self.inner.append(session, append);
                Box::pin(async move {
                    drop(pending.await);
                    std::future::pending().await
                })
            }
            Fault::Late(by) => {
                let store = self.inner.clone();
                Box::pin(async move {
                    tokio::time::sleep(by).await;
                    store.append(session, append).await
                })
            }
            Fault::After => {
                let pending = self.inner.append(session, append);
                Box::pin(async move {
                    pending.await?;
                    Err(lost())
                })
            }
        }
    }

    async fn head(&self, session: SessionId) -> Result<Arc<State>, ReadError> {
        self.inner.head(session).await
    }

    async fn read(&self, session: SessionId, slice: Slice) -> Result<Vec<Record>, ReadError> {
        self.inner.read(session, slice).await
    }

    async fn find(&self, session: SessionId, event: EventId) -> Result<Record, ReadError> {
        self.inner.find(session, event).await
    }

    async fn of_event(&self, session: SessionId, event: EventId) -> Result<Vec<Record>, ReadError> {
        self.inner.of_event(session, event).await
    }

    async fn scrub(&self) -> Result<(), ReadError> {
        self.inner.scrub().await
    }

    async fn position_at(&self, session: SessionId, at: Micros) -> Result<u64, ReadError> {
        self.inner.position_at(session, at).await
    }

    async fn watch(&self, session: SessionId) -> Result<watch::Receiver<u64>, ReadError> {
        self.inner.watch(session).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Listing, ReadError> {
        self.inner.sessions(query).await
    }

    async fn ready(&self, now: Micros, limit: usize) -> Result<Vec<Ready>, ReadError> {
        self.inner.ready(now, limit).await
    }

    async fn next_ready(&self, now: Micros) -> Result<Option<Micros>, ReadError> {
        self.inner.next_ready(now).await
    }

    async fn overdue(&self, now: Micros, limit: usize) -> Result<Vec<SessionId>, ReadError> {
        self.inner.overdue(now, limit).await
    }

    async fn next_deadline(&self, now: Micros) -> Result<Option<Micros>, ReadError> {
        self.inner.next_deadline(now).await
    }

    async fn unfinished(&self, limit: usize) -> Result<Vec<SessionId>, ReadError> {
        self.inner.unfinished(limit).await
    }

    async fn named(
        &self,
        hands: &[IncarnationId],
    ) -> Result<Vec<(IncarnationId, SessionId)>, ReadError> {
        self.inner.named(hands).await
    }

    async fn save_snapshot(&self, snapshot: Snapshot) -> Result<(), ReadError> {
        self.inner.save_snapshot(snapshot).await
    }

    async fn snapshot(
        &self,
        session: SessionId,
        thread: u32,
        name: &str,
    ) -> Result<Option<Snapshot>, ReadError> {
        self.inner.snapshot(session, thread, name).await
    }

    async fn purge(&self, limit: usize) -> Result<usize, ReadError> {
        self.inner.purge(limit).await
    }
}

#[async_trait]
impl<S: Resources> Resources for Faulty<S> {
    async fn insert(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        self.inner.insert(new, receipt).await
    }

    async fn replace(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        self.inner.replace(new, receipt).await
    }

    async fn amend(&self, new: Resource, receipt: Option<Receipt>) -> Result<(), WriteError> {
        self.inner.amend(new, receipt).await
    }

    async fn get(
        &self,
        kind: ResourceKind,
        id: &str,
        revision: Option<u64>,
    ) -> Result<Resource, ReadError> {
        self.inner.get(kind, id, revision).await
    }

    async fn list(&self, query: &ResourceQuery) -> Result<ResourcePage, ReadError> {
        self.inner.list(query).await
    }

    async fn revisions(
        &self,
        kind: ResourceKind,
        id: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<ResourcePage, ReadError> {
        self.inner.revisions(kind, id, before, limit).await
    }

    async fn remove(&self, kind: ResourceKind, id: &str) -> Result<(), WriteError> {
        self.inner.remove(kind, id).await
    }

    async fn receipt(
        &self,
        fingerprint: [u8; 32],
        since: Micros,
    ) -> Result<Option<Receipt>, ReadError> {
        self.inner.receipt(fingerprint, since).await
    }

    async fn written_out(&self, fingerprint: [u8; 32]) -> Result<(), WriteError> {
        self.inner.written_out(fingerprint).await
    }

    async fn sweep_receipts(&self, before: Micros) -> Result<usize, WriteError> {
        self.inner.sweep_receipts(before).await
    }

    async fn register(&self, process: ProcessId, at: Micros) -> Result<(), WriteError> {
        self.hear()?;
        self.inner.register(process, at).await
    }

    async fn beat(&self, process: ProcessId) -> Result<Pulse, WriteError> {
        self.hear()?;
        self.inner.beat(process).await
    }

    async fn processes(&self) -> Result<Vec<Process>, ReadError> {
        self.hear()?;
        self.inner.processes().await
    }

    async fn declare_dead(&self, process: ProcessId) -> Result<(), WriteError> {
        self.hear()?;
        self.inner.declare_dead(process).await
    }

    async fn probe(&self) -> Result<(), WriteError> {
        self.here()?;
        self.inner.probe().await
    }

    fn trouble(&self) -> Option<Trouble> {
        self.inner.trouble()
    }
}

#[async_trait]
impl<S: Files> Files for Faulty<S> {
    async fn begin_blob(&self, blob: Blob, by: ProcessId) -> Result<(), WriteError> {
        self.here()?;
        self.inner.begin_blob(blob, by).await
    }

    async fn drop_blob(&self, blob: Blob) -> Result<bool, WriteError> {
        self.here()?;
        self.inner.drop_blob(blob).await
    }

    async fn insert_file(
        &self,
        new: StoredFile,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        self.inner.insert_file(new, receipt).await
    }

    async fn publish_file(&self, new: StoredFile) -> Result<Option<FileId>, WriteError> {
        self.inner.publish_file(new).await
    }

    async fn file(&self, id: FileId) -> Result<StoredFile, ReadError> {
        self.inner.file(id).await
    }

    async fn files(&self, query: &FileQuery) -> Result<FilePage, ReadError> {
        self.inner.files(query).await
    }

    async fn outputs(&self, session: SessionId) -> Result<Vec<StoredFile>, ReadError> {
        self.inner.outputs(session).await
    }

    async fn remove_file(&self, id: FileId) -> Result<(), WriteError> {
        self.inner.remove_file(id).await
    }

    async fn expire_files(&self, now: Micros, forgotten: Micros) -> Result<usize, WriteError> {
        self.inner.expire_files(now, forgotten).await
    }

    async fn loose_blobs(&self, limit: usize) -> Result<Vec<Blob>, ReadError> {
        self.inner.loose_blobs(limit).await
    }

    async fn forget_blob(&self, blob: Blob) -> Result<(), WriteError> {
        self.here()?;
        self.inner.forget_blob(blob).await
    }
}

#[async_trait]
impl<S: Secrets> Secrets for Faulty<S> {
    async fn secret(&self, owner: &str) -> Result<Option<SealedSecret>, ReadError> {
        self.inner.secret(owner).await
    }

    async fn replace_secret(&self, new: SealedSecret) -> Result<bool, WriteError> {
        self.inner.replace_secret(new).await
    }

    async fn rewrap_secret(&self, from: &str, new: SealedSecret) -> Result<bool, WriteError> {
        self.inner.rewrap_secret(from, new).await
    }

    async fn remove_secrets(&self, id: &str) -> Result<(), WriteError> {
        self.inner.remove_secrets(id).await
    }

    async fn secrets(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SealedSecret>, ReadError> {
        self.inner.secrets(after, limit).await
    }

    async fn claim_refresh(
        &self,
        owner: &str,
        revision: u64,
        now: Micros,
        until: Micros,
    ) -> Result<bool, WriteError> {
        self.inner.claim_refresh(owner, revision, now, until).await
    }

    async fn end_refresh(
        &self,
        owner: &str,
        revision: u64,
        until: Micros,
    ) -> Result<(), WriteError> {
        self.inner.end_refresh(owner, revision, until).await
    }
}

#[async_trait]
impl<S: Wards> Wards for Faulty<S> {
    async fn insert_ward(
        &self,
        new: Resource,
        secret: SealedSecret,
        most: usize,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        self.inner.insert_ward(new, secret, most, receipt).await
    }

    async fn replace_ward(
        &self,
        new: Resource,
        secret: Sealing,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        self.inner.replace_ward(new, secret, receipt).await
    }

    async fn replace_family(
        &self,
        parent: Resource,
        wards: Vec<Resource>,
        receipt: Option<Receipt>,
    ) -> Result<(), WriteError> {
        self.inner.replace_family(parent, wards, receipt).await
    }
}
