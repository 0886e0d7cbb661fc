//! Blobs as files of a local directory.

mod arrive;
mod leave;
mod tree;

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Away, Blobs, Error, Key, Reader, Teller};

/// Where files are written before they get their name; no key begins with a dot.
const STAGE: &str = ".stage";

/// Directories remembered as durable; past this the memory starts afresh.
const KNOWN: usize = 4_096;

/// How often a put makes its directory again after a delete removed it, before it gives up.
const RACES: u32 = 1_000;

/// Keeps each blob as a file at its key below one directory.
///
/// A blob is written aside, synced, renamed, and its directory synced; so it is whole or absent
/// after any crash. One process at a time may have the directory open.
#[derive(Clone, Debug)]
pub struct Folder {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    next: AtomicU64,
    /// Directories whose own entries are synced all the way up.
    known: Mutex<HashSet<PathBuf>>,
    teller: Teller,
}

impl Folder {
    /// Opens the directory, makes it where it is missing, and removes what a crash left half
    /// written.
    ///
    /// # Errors
    ///
    /// If the directory cannot be made, read or written.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        let stage = root.join(STAGE);
        directory(&stage)?;
        for entry in fs::read_dir(&stage)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(Self::beside(root))
    }

    /// Opens the directory for reading beside another process that has it: nothing is made, and
    /// nothing of the other's is removed. A directory that is missing has no blobs.
    pub fn beside(root: impl Into<PathBuf>) -> Self {
        Self {
            inner: Arc::new(Inner {
                root: root.into(),
                next: AtomicU64::new(0),
                known: Mutex::default(),
                teller: Teller::default(),
            }),
        }
    }

    /// Runs blocking work on a thread where it may block.
    async fn run<T: Send + 'static>(
        &self,
        key: &Key,
        work: impl FnOnce(&Inner, &Key) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (inner, owned) = (self.inner.clone(), key.clone());
        let done = tokio::task::spawn_blocking(move || work(&inner, &owned)).await;
        match done {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) if is_absent(&error) => Err(Error::NotFound(key.clone())),
            Ok(Err(error)) => Err(self.inner.unavailable(key, error)),
            Err(error) => Err(self.inner.unavailable(key, io::Error::other(error))),
        }
    }
}

/// Tells whether an error means that no file of that name is there.
fn is_absent(error: &io::Error) -> bool {
    // A prefix of other keys is a directory and no blob; below a blob there is nothing.
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | IsADirectory | NotADirectory)
}

#[async_trait]
impl Blobs for Folder {
    async fn put(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        let stored = self
            .run(key, move |inner, key| Ok(inner.put(key, &bytes)))
            .await?;
        stored.map_err(|error| self.inner.unavailable(key, error))
    }

    async fn put_from(&self, key: &Key, content: Reader) -> Result<u64, Error> {
        let staged = Staged(self.inner.stage());
        let copied = arrive::stream(&staged.0, content).await;
        let bytes = copied.map_err(|error| self.inner.unavailable(key, error))?;
        let named = self
            .run(key, move |inner, key| {
                Ok(inner.name(&staged.0, &inner.path(key)))
            })
            .await?;
        named.map_err(|error| self.inner.unavailable(key, error))?;
        Ok(bytes)
    }

    async fn open(&self, key: &Key, from: u64) -> Result<Reader, Error> {
        let open = move |inner: &Inner, key: &Key| {
            let mut file = File::open(inner.path(key))?;
            // A folder opens too, and is no blob.
            if file.metadata()?.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            file.seek(io::SeekFrom::Start(from))?;
            Ok(file)
        };
        Ok(leave::read(self.run(key, open).await?))
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        self.run(key, |inner, key| fs::read(inner.path(key)).map(Bytes::from))
            .await
    }

    async fn delete(&self, key: &Key) -> Result<(), Error> {
        match self.run(key, Inner::delete).await {
            Err(Error::NotFound(_)) => Ok(()),
            other => other,
        }
    }

    async fn delete_prefix(&self, prefix: &Key, limit: usize) -> Result<usize, Error> {
        self.run(prefix, move |inner, prefix| {
            let keys = tree::list(&inner.root, prefix, None, limit)?;
            for key in &keys {
                inner.delete(key).or_else(absent_is_fine)?;
            }
            Ok(keys.len())
        })
        .await
    }

    async fn list(
        &self,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, Error> {
        let after = after.cloned();
        self.run(prefix, move |inner, prefix| {
            tree::list(&inner.root, prefix, after.as_ref(), limit)
        })
        .await
    }
}

/// Tells whether a directory was empty a moment ago and another call removed it.
///
/// Making one says `AlreadyExists` where it goes between the attempt and the look at it. A blob in a
/// directory's place says the same, for ever.
fn is_race(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
    )
}

fn absent_is_fine(error: io::Error) -> io::Result<()> {
    if is_absent(&error) {
        Ok(())
    } else {
        Err(error)
    }
}

impl Inner {
    fn unavailable(&self, key: &Key, error: io::Error) -> Error {
        let reason = Away::from(error);
        if reason.is_full() {
            self.teller.full(&self.root.display(), &reason);
        }
        Error::Unavailable {
            key: key.clone(),
            reason,
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(key.as_str())
    }

    /// Returns a place that nobody else writes to.
    fn stage(&self) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.root.join(STAGE).join(number.to_string())
    }

    fn put(&self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        let staged = self.stage();
        let done = write(&staged, bytes).and_then(|()| self.name(&staged, &self.path(key)));
        if done.is_err() {
            // What went wrong is told below; a leftover is swept at the next start.
            drop(fs::remove_file(&staged));
        }
        done
    }

    /// Gives a staged file its name, durably.
    fn name(&self, staged: &Path, target: &Path) -> io::Result<()> {
        let home = target.parent().unwrap_or(&self.root);
        let mut tries = 0;
        loop {
            match self.settle(home).and_then(|()| fs::rename(staged, target)) {
                Ok(()) => return sync_directory(home),
                Err(error) if is_race(&error) && tries < RACES => {
                    self.forget(home);
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes a directory and sees that its entry, and those above it, are on disk.
    fn settle(&self, home: &Path) -> io::Result<()> {
        if self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(home)
        {
            return Ok(());
        }
        directory(home)?;
        let above = home
            .ancestors()
            .skip(1)
            .take_while(|path| path.starts_with(&self.root));
        for path in above {
            sync_directory(path)?;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(home.to_owned());
        Ok(())
    }

    fn forget(&self, home: &Path) {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(home);
    }

    /// Removes a file, and the directories that are empty without it.
    fn delete(&self, key: &Key) -> io::Result<()> {
        let path = self.path(key);
        fs::remove_file(&path)?;
        let above = path.ancestors().skip(1);
        for home in above.take_while(|home| *home != self.root && home.starts_with(&self.root)) {
            self.forget(home);
            if fs::remove_dir(home).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// A staged file, which goes with this unless it got a name. One left over is swept at the next
/// start.
struct Staged(PathBuf);

impl Drop for Staged {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests;
