//! Files: bytes in blobs, what is known of them in the store.
//!
//! A blob is noted as loose before its first byte is written and until a file names it, so that
//! whatever a crash interrupts is removed by the next process.

mod lack;
mod mounts;
mod outputs;
mod sources;

use std::{
    collections::BTreeSet,
    fmt, io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use outlast_blobs::{Away, Blobs, Key, Reader};
use outlast_protocol::{
    ErrorCode, Micros, Problem,
    file::{File, Scope},
    id::FileId,
};
use outlast_store::{Blob, FilePage, FileQuery, ReadError, Receipt, Store, StoredFile, WriteError};
use tokio::io::{AsyncRead, ReadBuf};

use crate::{Kernel, error, kernel::Inner};

pub(crate) use mounts::Placed;
pub(crate) use outputs::Publisher;
pub use sources::Attached;

/// How long a file that has ended is remembered, so that its readers are told so.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Blobs that are remembered to be given up while the store is away; those beyond wait for the next
/// process.
const GIVEN_UP: usize = 10_000;

/// What the bytes of files are called to those who wait for them.
const FILES: &str = "files";

/// Loose blobs that are removed at once.
const CHUNK: usize = 100;

/// Bytes that are stored and belong to no file yet; dropped, they go.
#[derive(Debug)]
pub struct Received {
    loose: Loose,
    blob: FileId,
    /// How many they are.
    pub bytes: u64,
    /// BLAKE3 of them.
    pub digest: [u8; 32],
}

/// A blob that nothing names; dropped, it goes.
pub(crate) struct Loose {
    inner: Arc<Inner>,
    blob: Blob,
    named: bool,
}

/// Blobs that were given up, until the store has heard of it.
#[derive(Debug, Default)]
pub(crate) struct GivenUp(Mutex<BTreeSet<Blob>>);

impl GivenUp {
    fn add(&self, blob: Blob) {
        let mut blobs = self.blobs();
        if blobs.len() < GIVEN_UP {
            blobs.insert(blob);
        }
    }

    fn blobs(&self) -> MutexGuard<'_, BTreeSet<Blob>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the store; what it does not hear now it hears at the next time. The notes of a process
    /// that ends before are given up by the next one.
    async fn tell(&self, store: &dyn Store) {
        let blobs: Vec<Blob> = self.blobs().iter().cloned().collect();
        for blob in blobs {
            if let Err(fault) = store.drop_blob(blob.clone()).await {
                tracing::debug!(%fault, "a blob without a name stays for now: {fault}");
                return;
            }
            self.blobs().remove(&blob);
        }
    }
}

impl fmt::Debug for Loose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loose").field(&self.blob).finish()
    }
}

impl Drop for Loose {
    fn drop(&mut self) {
        if self.named {
            return;
        }
        self.inner.given_up.add(self.blob.clone());
        let inner = self.inner.clone();
        self.inner
            .tasks
            .spawn(async move { inner.given_up.tell(&*inner.store).await });
    }
}

impl Loose {
    /// Notes a blob before its first byte is written.
    pub(crate) async fn begin(inner: &Arc<Inner>, blob: Blob) -> Result<Self, WriteError> {
        // Made first: whether the note is there is not known if the store fails.
        let loose = Self {
            inner: inner.clone(),
            blob: blob.clone(),
            named: false,
        };
        // Once that process is dead, anybody gives the blob up.
        inner.store.begin_blob(blob, inner.life.process()).await?;
        Ok(loose)
    }

    /// Writes it, unless `stop` comes first; returns how many bytes it has.
    ///
    /// To the end, even if nobody waits for it any more: a blob that got its name after it was given up
    /// would stay for ever.
    pub(crate) async fn fill(
        self,
        key: &Key,
        content: Reader,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(Self, u64), outlast_blobs::Error> {
        let (inner, key) = (self.inner.clone(), key.clone());
        let ended = |reason: &str| outlast_blobs::Error::Unavailable {
            key: key.clone(),
            reason: Away::other(reason),
        };
        let (stopped, died) = (ended("it was stopped"), ended("whoever wrote it died"));
        let tasks = self.inner.tasks.clone();
        let filling = tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stop => Err(stopped),
                stored = inner.blobs.put_from(&key, content) => {
                    inner.lacked(stored.as_ref().err());
                    stored.map(|bytes| (self, bytes))
                }
            }
        });
        filling.await.unwrap_or(Err(died))
    }

    /// Notes that it is named by now, and stays.
    pub(crate) fn named(mut self) {
        self.named = true;
    }
}

/// Hashes what passes.
struct Hashed {
    content: Reader,
    hasher: Arc<Mutex<blake3::Hasher>>,
    /// Whether the content itself failed.
    broke: Arc<AtomicBool>,
}

impl AsyncRead for Hashed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = self.content.as_mut().poll_read(cx, buffer);
        if matches!(polled, Poll::Ready(Err(_))) {
            self.broke.store(true, Ordering::Relaxed);
        }
        let new = buffer.filled().get(before..).unwrap_or_default();
        let mut hasher = self.hasher.lock().unwrap_or_else(PoisonError::into_inner);
        hasher.update(new);
        polled
    }
}

/// Returns where the bytes of files are kept.
#[expect(clippy::expect_used, reason = "an id is a part of a key")]
pub(crate) fn key(blob: FileId) -> Key {
    Key::new(format!("files/{blob}")).expect("an id is a part of a key")
}

/// Returns what clients see of a file.
pub fn shown(file: &StoredFile) -> File {
    File {
        id: file.id,
        created_at: file.created_at,
        downloadable: file.downloadable,
        expires_at: file.expires_at,
        filename: file.name.clone(),
        mime_type: file.mime_type.clone(),
        scope: file.scope.map(|id| Scope::Session { id }),
        size_bytes: file.bytes,
    }
}

impl Kernel {
    /// Stores bytes without holding them in memory.
    ///
    /// # Errors
    ///
    /// If they cannot be written, or the reader fails; nothing stays then.
    pub async fn receive(&self, content: Reader) -> Result<Received, Problem> {
        let blob = FileId::mint(self.0.clock.now(), &*self.0.entropy);
        let begun = Loose::begin(&self.0, blob.into()).await;
        let loose = begun.map_err(|fault| error::write(&fault))?;
        let hasher: Arc<Mutex<blake3::Hasher>> = Arc::default();
        let broke: Arc<AtomicBool> = Arc::default();
        let content = Hashed {
            content,
            hasher: hasher.clone(),
            broke: broke.clone(),
        };
        let key = key(blob);
        let filled = loose
            .fill(&key, Box::pin(content), std::future::pending())
            .await;
        let (loose, bytes) = filled.map_err(|fault| {
            // Whoever sends knows why; nothing of ours has failed.
            if broke.load(Ordering::Relaxed) {
                tracing::debug!(%fault, "an upload ended early: {fault}");
                return Problem::invalid("the content ended early; nothing was accepted");
            }
            let away = fault.into();
            self.0.failed(&away);
            error::unavailable(FILES, &away)
        })?;
        let hasher = hasher.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = hasher.finalize().into();
        Ok(Received {
            loose,
            blob,
            bytes,
            digest,
        })
    }

    /// Describes the file that received bytes are to become.
    pub fn upload(
        &self,
        received: &Received,
        (name, mime_type): (String, String),
        expiry: Option<Duration>,
    ) -> StoredFile {
        let now = self.now();
        StoredFile {
            id: received.blob,
            created_at: now,
            name,
            mime_type,
            bytes: received.bytes,
            downloadable: false,
            expires_at: expiry.map(|expiry| now.after(expiry)),
            scope: None,
            mounted: false,
            output: None,
            blob: Some(received.blob),
        }
    }

    /// Makes received bytes a file.
    pub async fn keep(
        &self,
        received: Received,
        file: StoredFile,
        receipt: Option<Receipt>,
    ) -> Result<(), Problem> {
        let kept = self.0.store.insert_file(file, receipt).await;
        kept.map_err(|fault| error::write(&fault))?;
        received.loose.named();
        Ok(())
    }

    /// Returns a file.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NotFound`], and [`ErrorCode::FileExpired`] of one that has ended.
    pub async fn file(&self, id: FileId) -> Result<StoredFile, Problem> {
        let found = self.0.store.file(id).await;
        let file = found.map_err(|fault| match fault {
            ReadError::NotFound(_) => Problem::not_found(format_args!("file `{id}`")),
            ReadError::Unreadable(_) | ReadError::Overloaded | ReadError::Unavailable(_) => {
                error::read(&fault)
            }
        })?;
        if file.is_past(self.now()) || file.blob.is_none() {
            let words = format!("file `{id}` has expired");
            return Err(Problem::new(ErrorCode::FileExpired, words));
        }
        Ok(file)
    }

    /// Lists files; those of one session after what its hand has left was published.
    pub async fn files(&self, query: &FileQuery) -> Result<FilePage, Problem> {
        if let Some(session) = query.scope {
            self.0.publish_now(session).await;
        }
        let found = self.0.store.files(query).await;
        found.map_err(|fault| error::read(&fault))
    }

    /// Opens the bytes of a file from byte `from` on.
    pub async fn open_file(&self, file: &StoredFile, from: u64) -> Result<Reader, Problem> {
        let gone = || Problem::not_found(format_args!("file `{}`", file.id));
        let blob = file.blob.ok_or_else(gone)?;
        let opened = self.0.blobs.open(&key(blob), from).await;
        opened.map_err(|fault| match fault {
            // Removed between the look at its row and this.
            outlast_blobs::Error::NotFound(_) => gone(),
            outlast_blobs::Error::Unavailable { .. } => error::unavailable(FILES, &fault.into()),
        })
    }

    /// Removes a file; downloads that run go on.
    pub async fn remove_file(&self, id: FileId) -> Result<(), Problem> {
        let removed = self.0.store.remove_file(id).await;
        removed.map_err(|fault| match fault {
            WriteError::NotFound(_) => Problem::not_found(format_args!("file `{id}`")),
            WriteError::Referenced(_) => Problem::invalid(format!(
                "file `{id}` is mounted in a session and goes with it; delete the resource there"
            )),
            WriteError::Moved { .. }
            | WriteError::Archived(_)
            | WriteError::Taken(_)
            | WriteError::Full(_)
            | WriteError::Overloaded
            | WriteError::Unavailable(_)
            | WriteError::Answered => error::write(&fault),
        })
    }
}

/// Ends files whose time is over, and removes blobs that nothing names.
pub(crate) async fn tidy(inner: &Inner) {
    inner.given_up.tell(&*inner.store).await;
    let now = inner.clock.now();
    let remembered = i64::try_from(REMEMBERED.as_micros()).unwrap_or(i64::MAX);
    let forgotten = Micros(now.0.saturating_sub(remembered));
    while matches!(inner.store.expire_files(now, forgotten).await, Ok(gone) if gone > 0) {}
    while let Ok(loose) = inner.store.loose_blobs(CHUNK).await {
        let full = loose.len() == CHUNK;
        for blob in loose {
            if !remove(inner, blob).await {
                return;
            }
        }
        if !full || inner.closing.is_cancelled() {
            return;
        }
    }
}

/// Removes a loose blob; tells whether that was done.
pub(crate) async fn remove(inner: &Inner, blob: Blob) -> bool {
    discard(&*inner.store, &*inner.blobs, blob).await
}

/// Removes a loose blob, and the note of it; tells whether that was done.
pub(crate) async fn discard(store: &dyn Store, blobs: &dyn Blobs, blob: Blob) -> bool {
    let key = match &blob {
        Blob::File(file) => Ok(key(*file)),
        Blob::Session { key, .. } => Key::new(key.as_str()),
    };
    // What is no key names nothing that could be there.
    if let Ok(key) = key
        && let Err(fault) = blobs.delete(&key).await
    {
        tracing::warn!(%fault, "a blob cannot be removed yet: {fault}");
        return false;
    }
    store.forget_blob(blob).await.is_ok()
}
