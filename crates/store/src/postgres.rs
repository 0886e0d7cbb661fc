//! Postgres, for several nodes: two lanes that append, a few connections for everything else.

mod audit_log;
mod carry;
mod certificate;
mod cluster;
mod conditions;
mod connect;
mod deadlines;
mod fault;
mod files;
mod heart;
mod insert;
mod intake;
mod keys;
mod lane;
mod listen;
mod listing;
mod load;
mod log;
mod loose;
mod migrate;
mod notify;
mod offline;
mod pool;
mod pooled;
mod processes;
mod purge;
mod queue;
mod read;
mod ready;
mod rebuild;
mod receipts;
mod resources;
mod rows;
mod scratch;
mod secrets;
mod snapshots;
mod sql;
mod store;
mod tls;
mod url;

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use outlast_blobs::Blobs;
use outlast_protocol::{
    id::SessionId,
    seam::{Clock, Entropy},
};
use outlast_session::Rules;
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{cluster::Cluster, offline::Offline, scratch::Scratch, url::UrlError};
use self::{
    connect::{Connector, Durability},
    fault::Fault,
    heart::Heart,
    lane::Lane,
    notify::{Hasty, Notifier},
    pool::Pool,
    queue::Queue,
    url::Target,
};
use crate::{
    LockError, Migrated,
    bodies::Bodies,
    deciding::Seams,
    heads::Heads,
    lock::{self, Lock},
    watches::Watches,
};

/// Lanes of a node. Each waits for its own commit, so more of them wait for each other.
const LANES: usize = 2;

/// How long closing waits for what is on its way.
const TIDY: Duration = Duration::from_secs(5);

/// The file with the node's name, in the data directory.
const NODE: &str = "node-id";

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// Where the database is: `postgres://user:password@host/database?sslmode=...`.
    pub url: String,
    /// The data directory; it is made where it is missing, and held until the store is closed. What
    /// names this node stands in it.
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
    /// The longest wait for an answer of the database; [`SILENCE`] unless a test says otherwise.
    pub silence: Duration,
}

/// How long a database may leave something unanswered before it counts as gone.
pub const SILENCE: Duration = Duration::from_secs(20);

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL holds a password.
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
    /// The URL cannot be used.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The database cannot be reached, or refuses.
    #[error("the database cannot be opened: {0}")]
    Away(String),
    /// The schema cannot be brought up to date.
    #[error("the database cannot be brought up to date by `{name}`: {reason}")]
    Migration {
        /// The step that failed.
        name: &'static str,
        /// Why.
        reason: String,
    },
    /// A pooler shares sessions among transactions.
    #[error(
        "the database is behind a pooler that gives each transaction another session: let it pool by \
         session, or name the database itself"
    )]
    Pooled,
    /// A later version of this program made the schema.
    #[error("the database has schema {found}, and this version knows {known}: use a newer one")]
    Newer {
        /// What the database has.
        found: usize,
        /// What this program knows.
        known: usize,
    },
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> Self {
        Self::Away(fault.to_string())
    }
}

/// Logs and resources in a Postgres database, which several nodes share.
///
/// Cheap to clone. When the last clone goes without [`Postgres::close`], its tasks end by
/// themselves.
#[derive(Clone)]
pub struct Postgres {
    room: Arc<Room>,
    lanes: Arc<[Arc<Queue>; LANES]>,
    pool: Arc<Pool>,
    heart: Arc<Heart>,
    end: Arc<End>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

/// What lanes, listener and callers share.
struct Room {
    seams: Seams,
    bodies: Bodies,
    heads: Heads,
    watches: Watches,
    connector: Connector,
    notifier: Arc<Notifier>,
    hasty: Arc<Hasty>,
    node: String,
    runtime: Handle,
    /// Lanes, and bodies on their way to blobs or that turned out not to be wanted.
    tasks: TaskTracker,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}

/// Ends the tasks with the last handle of the store.
struct End {
    lanes: Arc<[Arc<Queue>; LANES]>,
    stop: CancellationToken,
}

impl Drop for End {
    fn drop(&mut self) {
        self.stop.cancel();
        self.lanes.iter().for_each(|queue| queue.close());
    }
}

impl Postgres {
    /// Opens the store, on the present runtime, and brings its schema up to date.
    ///
    /// # Errors
    ///
    /// If another process has the data directory, which is named then, if the database cannot be
    /// reached, or if a later version of this program made its schema.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let Options {
            url,
            dir,
            blobs,
            clock,
            entropy,
            rules,
            takes_system,
            silence,
        } = options;
        let target = Target::parse(&url)?;
        let lock = hold(&dir)?;
        let node = node(&dir, &*entropy)?;
        let connector = Connector::new(target, entropy.clone());
        reach(&connector).await?;
        let connector = connector.patient(silence);
        let seams = Seams {
            clock,
            entropy,
            rules,
            takes_system,
        };
        let room = Arc::new(Room {
            seams,
            bodies: Bodies::new(blobs),
            heads: Heads::default(),
            watches: Watches::default(),
            hasty: Arc::new(Hasty::new(connector.clone())),
            notifier: Arc::default(),
            connector: connector.clone(),
            node,
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
        });
        Ok(Self::start(room, connector, lock))
    }

    fn start(room: Arc<Room>, connector: Connector, lock: Lock) -> Self {
        let lanes: Arc<[Arc<Queue>; LANES]> = Arc::default();
        for queue in lanes.iter() {
            room.tasks.spawn(Lane::run(room.clone(), queue.clone()));
        }
        let stop = CancellationToken::new();
        let (told, own) = (stop.clone(), room.clone());
        room.tasks.spawn(async move {
            let tell = own.notifier.clone().run(own.hasty.clone());
            let tasks = async {
                tokio::join!(tell, listen::listen(own.clone()), listen::tend(own.clone()))
            };
            tokio::select! {
                biased;
                _never = tasks => {}
                () = told.cancelled() => {}
            }
            // Only now may another process have the directory.
            drop(lock);
        });
        Self {
            room,
            lanes: lanes.clone(),
            heart: Arc::new(Heart::new(connector.clone())),
            pool: Arc::new(Pool::new(connector)),
            end: Arc::new(End { lanes, stop }),
        }
    }

    /// Applies the changes of the schema that are missing, and does nothing else.
    ///
    /// # Errors
    ///
    /// If the database cannot be reached, or if a later version of this program made its schema.
    pub async fn migrate(url: &str, entropy: Arc<dyn Entropy>) -> Result<Migrated, OpenError> {
        let target = Target::parse(url)?;
        let connector = Connector::new(target, entropy);
        reach(&connector).await
    }

    /// Checks a URL without going there.
    ///
    /// # Errors
    ///
    /// What is wrong with it; the password is not among the words.
    pub fn check(url: &str) -> Result<(), UrlError> {
        Target::parse(url).map(drop)
    }

    /// Finishes the rounds that are on their way, fails what waits as unavailable, and lets go of
    /// the data directory.
    pub async fn close(&self) {
        self.lanes.iter().for_each(|queue| queue.close());
        self.end.stop.cancel();
        self.room.tasks.close();
        drop(tokio::time::timeout(TIDY, self.room.tasks.wait()).await);
        self.pool.close();
    }

    /// Returns the lane of a session.
    fn lane(&self, session: SessionId) -> &Arc<Queue> {
        let [first, second] = &*self.lanes;
        let sum = session.to_string().bytes().fold(0_u8, u8::wrapping_add);
        if sum.is_multiple_of(2) { first } else { second }
    }
}

/// Brings the schema of a database up to date, if it can be used at all.
async fn reach(connector: &Connector) -> Result<Migrated, OpenError> {
    if pooled::are_shared(connector).await? {
        return Err(OpenError::Pooled);
    }
    migrate::migrate(&connector.connect(Durability::Synced).await?).await
}

/// Takes the data directory.
fn hold(dir: &Path) -> Result<Lock, LockError> {
    lock::directory(dir).map_err(|error| LockError::Io {
        path: dir.to_owned(),
        error,
    })?;
    Lock::take(dir)
}

/// Returns the name of this node: made once, kept in its data directory.
fn node(dir: &Path, entropy: &dyn Entropy) -> Result<String, LockError> {
    let path = dir.join(NODE);
    let failed = |error| LockError::Io {
        path: path.clone(),
        error,
    };
    match fs::read_to_string(&path) {
        Ok(known) if !known.trim().is_empty() => return Ok(known.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // Whole or not there: the directory is ours, so nobody else writes it meanwhile.
    let aside = dir.join(format!("{NODE}.new"));
    fs::write(&aside, &name).map_err(failed)?;
    fs::rename(&aside, &path).map_err(failed)?;
    Ok(name)
}
