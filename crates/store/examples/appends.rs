//! Prints durable appends per second for some numbers of writers.
//!
//! `cargo run --release -p outlast-store --example appends -- [place] [seconds] [writers..]`.
//! Each writer is a brain of its own session that notes one kilobyte and waits for the answer.
//!
//! The place is a directory, for the store on `SQLite`, or the `postgres://` URL of a database. With
//! the word `postgres` it starts a private server, and runs `pgbench` with as many clients beside
//! each row: one plain row of one kilobyte a commit, in turns of a second.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use outlast_blobs::Folder;
use outlast_protocol::id::SessionId;
use outlast_session::{Fence, Proposal, Rules};
use outlast_store::{
    Append, Store,
    conformance::fixture::{Subject, World, note},
    postgres::{self, Postgres},
    sqlite::{Options, Sqlite},
};
use outlast_testkit::{
    postgres::{Cluster, Syncs},
    random::Seeded,
    time::ManualClock,
};
use tokio::{task::JoinSet, time::Instant};

const HEAD: &str = "writers  appends/s  p50 ms  p99 ms";

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Fallible<()> {
    let mut arguments = std::env::args().skip(1);
    let home = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(3);
    let wanted: Vec<usize> = arguments.filter_map(|text| text.parse().ok()).collect();
    let wanted = if wanted.is_empty() {
        vec![1, 16, 64, 256]
    } else {
        wanted
    };
    match home.to_str() {
        Some("postgres") => beside_pgbench(seconds, wanted).await,
        Some(url) if url.starts_with("postgres") => on_database(url, seconds, wanted).await,
        Some(_) | None => on_sqlite(&home, seconds, wanted).await,
    }
}

async fn on_sqlite(home: &Path, seconds: u64, wanted: Vec<usize>) -> Fallible<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{HEAD}")?;
    for writers in wanted {
        let dir = tempfile::tempdir_in(home)?;
        let (store, world) = open(dir.path().to_owned()).await?;
        let took = measure(&world, writers, Duration::from_secs(seconds)).await;
        writeln!(out, "{}", row(writers, seconds, took))?;
        store.close().await;
    }
    Ok(())
}

async fn on_database(url: &str, seconds: u64, wanted: Vec<usize>) -> Fallible<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{HEAD}")?;
    for writers in wanted {
        let dir = tempfile::tempdir()?;
        let (store, world) = connect(url.to_owned(), dir.path()).await?;
        let took = measure(&world, writers, Duration::from_secs(seconds)).await;
        writeln!(out, "{}", row(writers, seconds, took))?;
        store.close().await;
    }
    Ok(())
}

async fn beside_pgbench(seconds: u64, wanted: Vec<usize>) -> Fallible<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{HEAD}   pgbench/s  share")?;
    for writers in wanted {
        let (dir, cluster) = (tempfile::tempdir()?, Cluster::start(Syncs::All));
        let (store, world) = connect(cluster.url("postgres"), dir.path()).await?;
        let mut crowd = Crowd::new(&world, writers).await;
        let (mut took, mut floor) = (Vec::new(), 0.0);
        // In turns, for the disk is not the same all the time.
        for _ in 0..seconds {
            floor += cluster.bench(writers, 1);
            took.extend(crowd.run(&world, Duration::from_secs(1)).await);
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let (share, floor) = (took.len() as f64 / floor, floor / seconds as f64);
        let row = row(writers, seconds, took);
        writeln!(out, "{row}  {floor:10.0}  {share:5.2}")?;
        store.close().await;
    }
    Ok(())
}

/// Opens the store on a database.
async fn connect(url: String, dir: &Path) -> Fallible<(Postgres, World)> {
    // Runs after one another in one database draw different ids.
    let seed = std::time::UNIX_EPOCH.elapsed()?.subsec_nanos();
    let (clock, entropy) = (
        Arc::new(ManualClock::default()),
        Arc::new(Seeded::new(seed.into())),
    );
    let store = Postgres::open(postgres::Options {
        url,
        blobs: Arc::new(Folder::open(dir.join("blobs"))?),
        dir: dir.to_owned(),
        clock: clock.clone(),
        entropy: entropy.clone(),
        rules: Rules::default(),
        takes_system: Arc::new(|_| true),
        silence: postgres::SILENCE,
    })
    .await?;
    let subject = Subject {
        store: Arc::new(store.clone()),
        clock,
        entropy,
    };
    Ok((store, World::new(subject).await))
}

fn row(writers: usize, seconds: u64, mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    let rate = took.len() as u64 / seconds;
    let at = |part: usize| {
        took.get(took.len() * part / 100)
            .map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    format!("{writers:7}  {rate:9}  {:6.2}  {:6.2}", at(50), at(99))
}

async fn open(dir: PathBuf) -> Fallible<(Sqlite, World)> {
    let (clock, entropy) = (Arc::new(ManualClock::default()), Arc::new(Seeded::new(1)));
    let store = Sqlite::open(Options {
        blobs: Arc::new(Folder::open(dir.join("blobs"))?),
        dir,
        clock: clock.clone(),
        entropy: entropy.clone(),
        rules: Rules::default(),
        takes_system: Arc::new(|_| true),
    })
    .await?;
    let subject = Subject {
        store: Arc::new(store.clone()),
        clock,
        entropy,
    };
    Ok((store, World::new(subject).await))
}

/// Lets that many writers append for a while; returns how long each append took.
async fn measure(world: &World, writers: usize, time: Duration) -> Vec<Duration> {
    Crowd::new(world, writers).await.run(world, time).await
}

/// Brains, each with its session, its epoch and its last seq.
struct Crowd(Vec<(SessionId, u64, u64)>);

impl Crowd {
    async fn new(world: &World, writers: usize) -> Self {
        let mut brains = Vec::new();
        for _ in 0..writers {
            let brain = world.running().await;
            brains.push((brain.session, brain.epoch, brain.seq));
        }
        Self(brains)
    }

    async fn run(&mut self, world: &World, time: Duration) -> Vec<Duration> {
        let (mut writing, end) = (JoinSet::new(), Instant::now() + time);
        for (session, epoch, seq) in self.0.drain(..) {
            let store = world.store.clone();
            writing.spawn(async move {
                let took = write(store, session, epoch, seq, end).await;
                ((session, epoch, seq + took.len() as u64), took)
            });
        }
        let (brains, took): (Vec<_>, Vec<_>) = writing.join_all().await.into_iter().unzip();
        self.0 = brains;
        took.into_iter().flatten().collect()
    }
}

async fn write(
    store: Arc<dyn Store>,
    session: SessionId,
    epoch: u64,
    mut seq: u64,
    end: Instant,
) -> Vec<Duration> {
    let text = "n".repeat(1_000);
    let mut took = Vec::new();
    while Instant::now() < end {
        seq += 1;
        let fence = Fence {
            epoch,
            seq,
            acked: seq - 1,
        };
        let proposal = Proposal::Brain {
            thread: 0,
            fence,
            step: note(&text),
        };
        let began = Instant::now();
        if store
            .append(
                session,
                Append {
                    proposal,
                    receipt: None,
                },
            )
            .await
            .is_err()
        {
            break;
        }
        took.push(began.elapsed());
    }
    took
}
