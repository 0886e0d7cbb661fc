//! Where the sessions of a storm are kept, and how that is killed.

use std::{sync::Arc, time::Duration};

use outlast_store::postgres::{Cluster, OpenError, Scratch};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::{killer::Victim, place::Place};
use crate::{
    OsEntropy,
    cli::failure::{Exit, Failure},
};

/// How long a database server may take to answer; one that was killed recovers first.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is asked.
const LOOK: Duration = Duration::from_millis(50);

/// Sessions that one kill ends at most.
const SESSIONS: u32 = 2;

/// Which database a storm is to use.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Choice {
    /// A file in the data directory.
    File,
    /// A database on a server that runs already.
    At(String),
    /// A server that is started for the storm.
    Own,
}

/// A database that nobody else uses.
#[derive(Debug)]
pub(super) enum Database {
    /// `SQLite`, in the data directory.
    File,
    /// In a Postgres.
    Shared {
        scratch: Box<Scratch>,
        /// The server, if it was started for the storm.
        cluster: Option<Cluster>,
    },
}

impl Database {
    /// Makes it.
    pub(super) async fn make(choice: &Choice, place: &Place) -> Result<Self, Failure> {
        let (url, cluster) = match choice {
            Choice::File => return Ok(Self::File),
            Choice::At(url) => (url.clone(), None),
            Choice::Own => {
                let cluster = start(place)?;
                (cluster.url("postgres"), Some(cluster))
            }
        };
        let mut cluster = cluster;
        let until = Instant::now() + PATIENCE;
        loop {
            match Scratch::make(&url, Arc::new(OsEntropy)).await {
                Ok(scratch) => {
                    return Ok(Self::Shared {
                        scratch: Box::new(scratch),
                        cluster,
                    });
                }
                Err(_) if cluster.is_some() && Instant::now() < until => {
                    alive(&mut cluster)?;
                    sleep(LOOK).await;
                }
                Err(error) => return Err(refused(&error)),
            }
        }
    }

    /// Returns how the server reaches it, if it is no file.
    pub(super) fn url(&self) -> Option<&str> {
        match self {
            Self::File => None,
            Self::Shared { scratch, .. } => Some(scratch.url()),
        }
    }

    /// Returns what it is, in words.
    pub(super) fn words(&self) -> String {
        match self {
            Self::File => "SQLite".to_owned(),
            Self::Shared { scratch, cluster } => {
                let server = match cluster {
                    Some(_) => "a Postgres of its own",
                    None => "Postgres",
                };
                format!("{server}, database {}", scratch.name())
            }
        }
    }

    /// Returns the deck of victims: each kind as often as it is to be drawn.
    pub(super) fn victims(&self) -> Vec<Victim> {
        use Victim::{Backends, HandHost, Sandbox, Server};
        let mut deck = vec![
            Server, Server, Server, Server, HandHost, HandHost, Sandbox, Sandbox, Sandbox, Sandbox,
        ];
        if let Self::Shared { cluster, .. } = self {
            deck.extend([Backends, Backends, Backends]);
            deck.extend(cluster.as_ref().map(|_| Victim::Database));
        }
        deck
    }

    /// Ends a few sessions of the server's, whichever; returns how many.
    pub(super) async fn end_sessions(&self) -> Result<usize, String> {
        match self {
            Self::File => Ok(0),
            Self::Shared { scratch, .. } => {
                let ended = scratch.end_sessions(SESSIONS).await;
                ended.map_err(|error| error.to_string())
            }
        }
    }

    /// Kills the database server and starts it again, if it was started for the storm.
    pub(super) async fn kill(&mut self) -> Result<(), String> {
        let Self::Shared {
            scratch,
            cluster: Some(cluster),
        } = self
        else {
            return Ok(());
        };
        let ended = tokio::task::block_in_place(|| cluster.end(Signal::KILL));
        ended.map_err(|error| error.to_string())?;
        let until = Instant::now() + PATIENCE;
        loop {
            // Processes of the one before may be there for a moment, and then no other starts.
            if cluster
                .ended()
                .map_err(|error| error.to_string())?
                .is_some()
                || !cluster.runs()
            {
                cluster.start().map_err(|error| error.to_string())?;
            }
            match scratch.answers().await {
                Ok(()) => return Ok(()),
                Err(_) if Instant::now() < until => sleep(LOOK).await,
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Drops it.
    pub(super) async fn remove(&mut self) -> Result<(), String> {
        match self {
            Self::File => Ok(()),
            Self::Shared { scratch, .. } => {
                let removed = scratch.remove().await;
                removed.map_err(|error| format!("database {} is left: {error}", scratch.name()))
            }
        }
    }
}

fn start(place: &Place) -> Result<Cluster, Failure> {
    let dir = place.dir.join("postgres");
    let made = std::fs::create_dir(&dir).and_then(|()| {
        let mut cluster = Cluster::make(&dir, &["max_connections=200"])?;
        cluster.start()?;
        Ok(cluster)
    });
    made.map_err(|error| {
        let words = format!("no Postgres can be started for the storm: {error}");
        Failure::say(Exit::Failed, words)
            .hint("--database-url names one that runs; --dir a folder that its user can reach")
    })
}

/// Fails if the database server has ended.
fn alive(cluster: &mut Option<Cluster>) -> Result<(), Failure> {
    let Some(cluster) = cluster else {
        return Ok(());
    };
    match cluster.ended()? {
        None => Ok(()),
        Some(status) => {
            let words = format!(
                "the Postgres of the storm ended ({status}): {}",
                cluster.log()
            );
            Err(Failure::say(Exit::Failed, words))
        }
    }
}

fn refused(error: &OpenError) -> Failure {
    let words = format!("no database can be made for the storm: {error}");
    Failure::say(Exit::Failed, words)
        .hint("its user needs the right to make databases: ALTER ROLE name CREATEDB")
}
