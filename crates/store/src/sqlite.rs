//! `SQLite` on one machine: one writer thread with group commit, a few readers.

mod append;
mod audit_log;
mod connect;
mod deadlines;
mod erase;
mod fault;
mod files;
mod insert;
mod intake;
mod job;
mod keys;
mod listing;
mod load;
mod log;
mod loose;
mod named;
mod offline;
mod processes;
mod purge;
mod queue;
mod read;
mod readers;
mod ready;
mod rebuild;
mod receipts;
mod resources;
mod rows;
mod secrets;
mod snapshots;
mod stage;
mod store;
mod writer;

use std::{
    fmt, io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use outlast_blobs::Blobs;
use outlast_protocol::seam::{Clock, Entropy};
use outlast_session::Rules;
use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

pub use self::offline::Offline;
use self::{fault::Fault, job::Task, load::Loader, queue::Queue, readers::Readers, writer::Writer};
use crate::{
    LockError, Migrated, WriteError,
    bodies::Bodies,
    deciding::Seams,
    heads::Heads,
    lock::{self, Lock},
    troubles::Troubles,
    waiting::Turned,
    watches::Watches,
};

/// Name of the database file in the data directory.
const FILE: &str = "outlast.db";

/// How long closing waits for bodies that nobody wants any more.
const TIDY: Duration = Duration::from_secs(5);

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// The data directory; it is made where it is missing, and held until the store is closed.
    pub dir: PathBuf,
    /// Where large bodies go.
    pub blobs: Arc<dyn Blobs>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Where ids and salts come from.
    pub entropy: Arc<dyn Entropy>,
    /// The operator's bounds.
    pub rules: Rules,
    /// Whether a model takes `system.message`.
    pub takes_system: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data directory cannot be had; another process may have it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file or directory cannot be made or opened.
    #[error("`{}` cannot be opened: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The database cannot be opened.
    #[error("the database cannot be opened: {0}")]
    Sql(#[from] rusqlite::Error),
    /// The schema cannot be brought up to date, or is that of a later version.
    #[error("the database cannot be brought up to date: {0}")]
    Migration(#[from] rusqlite_migration::Error),
}

/// Logs and resources in one `SQLite` database.
///
/// Cheap to clone. When the last clone goes without [`Sqlite::close`], the writer finishes the batch
/// it is at and ends by itself.
#[derive(Clone)]
pub struct Sqlite {
    room: Arc<Room>,
    queue: Arc<Queue>,
    readers: Arc<Readers>,
    _end: Arc<End>,
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").finish_non_exhaustive()
    }
}

/// What writer and callers share.
struct Room {
    seams: Seams,
    loader: Loader,
    heads: Heads,
    watches: Watches,
    /// Notes writes that the disk did not take.
    troubles: Troubles,
    /// Bodies on their way to blobs, and those that turned out not to be wanted.
    tasks: TaskTracker,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}

/// Ends the writer with the last handle of the store.
struct End {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Sqlite {
    /// Opens the store of a data directory, on the present runtime.
    ///
    /// # Errors
    ///
    /// If another process has the directory, which is named then, or the disk or schema is not fit.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let handle = Handle::current();
        let opening = handle.clone();
        let opened = opening.spawn_blocking(move || Self::open_blocking(options, handle));
        match opened.await {
            Ok(opened) => opened,
            Err(error) => Err(OpenError::Io {
                path: PathBuf::from(FILE),
                error: io::Error::other(error),
            }),
        }
    }

    fn open_blocking(options: Options, handle: Handle) -> Result<Self, OpenError> {
        let Options {
            dir,
            blobs,
            clock,
            entropy,
            rules,
            takes_system,
        } = options;
        let io = |error| OpenError::Io {
            path: dir.clone(),
            error,
        };
        lock::directory(&dir).map_err(io)?;
        let lock = Lock::take(&dir)?;
        let path = dir.join(FILE);
        let connection = connect::writer(&path)?;
        let loader = Loader {
            bodies: Bodies::new(blobs),
            handle,
        };
        let (heads, watches, tasks) = (Heads::default(), Watches::default(), TaskTracker::new());
        let seams = Seams {
            clock,
            entropy,
            rules,
            takes_system,
        };
        let room = Room {
            seams,
            loader,
            heads,
            watches,
            troubles: Troubles::default(),
            tasks,
        };
        let (room, queue) = (Arc::new(room), Arc::new(Queue::default()));
        let writer = Writer::new(connection, room.clone(), queue.clone());
        let thread = std::thread::Builder::new().name("store-writer".to_owned());
        let thread = thread.spawn(move || {
            writer.run();
            // Only now may another process have the directory.
            drop(lock);
        });
        let thread = Mutex::new(Some(thread.map_err(io)?));
        let end = Arc::new(End {
            queue: queue.clone(),
            thread,
        });
        Ok(Self {
            room,
            queue,
            readers: Arc::new(Readers::new(path)),
            _end: end,
        })
    }

    /// Applies the changes of the schema that are missing, and does nothing else.
    ///
    /// # Errors
    ///
    /// If another process has the directory, or the disk or schema is not fit.
    pub async fn migrate(dir: PathBuf) -> Result<Migrated, OpenError> {
        let path = dir.join(FILE);
        let done = tokio::task::spawn_blocking(move || {
            let io = |error| OpenError::Io {
                path: dir.clone(),
                error,
            };
            lock::directory(&dir).map_err(io)?;
            let _lock = Lock::take(&dir)?;
            let path = dir.join(FILE);
            let from = connect::version(&path)?;
            let to = connect::writer(&path)
                .map(drop)
                .and_then(|()| connect::version(&path))?;
            Ok(Migrated { from, to })
        });
        done.await.unwrap_or_else(|error| {
            let error = io::Error::other(error);
            Err(OpenError::Io { path, error })
        })
    }

    /// Finishes the batch that is being written, fails what waits as unavailable, and lets go of
    /// the data directory.
    pub async fn close(&self) {
        self.queue.close();
        self.readers.close();
        self.room.tasks.close();
        // Bodies on their way belong to appends that were refused just now.
        drop(tokio::time::timeout(TIDY, self.room.tasks.wait()).await);
        let thread = self
            ._end
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread
            && let Ok(Err(_)) = tokio::task::spawn_blocking(move || thread.join()).await
        {
            tracing::error!("the store's writer ended by a fault of its own");
        }
    }

    /// Writes in a batch with whatever else waits.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> Result<Result<T, WriteError>, Fault> + Send + 'static,
    ) -> Result<T, WriteError> {
        let (job, answer) = Task::job(work);
        self.queue.push(job)?;
        answer.await.map_err(|_| WriteError::from(Turned::Closed))?
    }

    /// Writes between batches.
    async fn background<T: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> Result<Result<T, WriteError>, Fault> + Send + 'static,
    ) -> Result<T, WriteError> {
        let (job, answer) = Task::job(work);
        self.queue.push_background(job)?;
        answer.await.map_err(|_| WriteError::from(Turned::Closed))?
    }
}
