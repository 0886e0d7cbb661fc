//! Prints durable appends per second for some numbers of writers.
//!
//! `cargo run --release -p outlast-store --example appends -- [directory] [seconds] [writers..]`.
//! Each writer is a brain of its own session that notes one kilobyte and waits for the answer.

use std::{io::Write as _, path::PathBuf, sync::Arc, time::Duration};

use outlast_blobs::Folder;
use outlast_protocol::id::SessionId;
use outlast_session::{Fence, Proposal, Rules};
use outlast_store::{
    Append, Log as _,
    conformance::fixture::{Subject, World, note},
    sqlite::{Options, Sqlite},
};
use outlast_testkit::{random::Seeded, time::ManualClock};
use tokio::{task::JoinSet, time::Instant};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
    let mut out = std::io::stdout();
    writeln!(out, "writers  appends/s  p50 ms  p99 ms")?;
    for writers in wanted {
        let dir = tempfile::tempdir_in(&home)?;
        let (store, world) = open(dir.path().to_owned()).await?;
        let mut took = measure(&store, &world, writers, Duration::from_secs(seconds)).await;
        took.sort_unstable();
        let rate = took.len() as u64 / seconds;
        let at = |part: usize| {
            took.get(took.len() * part / 100)
                .map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        writeln!(out, "{writers:7}  {rate:9}  {:6.2}  {:6.2}", at(50), at(99))?;
        store.close().await;
    }
    Ok(())
}

async fn open(dir: PathBuf) -> Result<(Sqlite, World), Box<dyn std::error::Error>> {
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
async fn measure(store: &Sqlite, world: &World, writers: usize, time: Duration) -> Vec<Duration> {
    let mut crowd = JoinSet::new();
    let mut brains = Vec::new();
    for _ in 0..writers {
        let brain = world.running().await;
        brains.push((brain.session, brain.epoch, brain.seq));
    }
    let end = Instant::now() + time;
    for (session, epoch, seq) in brains {
        crowd.spawn(write(store.clone(), session, epoch, seq, end));
    }
    crowd.join_all().await.into_iter().flatten().collect()
}

async fn write(
    store: Sqlite,
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
