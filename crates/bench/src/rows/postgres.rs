//! Durable appends of both stores, without HTTP, beside single-row commits in the same Postgres and
//! beside NATS `JetStream`.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::append::store::{Line, run};
use crate::{
    nats::Nats,
    postgres::Postgres,
    report::{Aim, Row},
    run::{Bench, say},
    stats::Samples,
};

const GROUP: &str = "Durable appends of the stores alone, by the number of writers";

/// Writers, rows that each client of `pgbench` commits in a round, and messages that each of NATS
/// publishes: about a second of either.
const CROWDS: [(usize, usize, usize); 4] = [
    (1, 3_000, 1_500),
    (16, 800, 100),
    (64, 200, 25),
    (256, 40, 6),
];

/// Rounds of each.
const ROUNDS: usize = 8;

/// What at least of single-row commits each append is to reach; and when many go together, at this
/// number of writers, all of them.
const SHARE: f64 = 0.7;
const BATCHED: usize = 64;

const PEER: &str = "Postgres, one row of 1 KiB";

/// Measures all four in turns.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let (Some(programs), Some(store)) =
        (bench.options.postgres.clone(), bench.options.store.clone())
    else {
        bench.lacks("appends on Postgres: `--postgres` or `--store` was not given");
        return Ok(Vec::new());
    };
    let peer = Postgres::start(&programs, bench.dir.join("stores")).await?;
    say(&format!("  {}", peer.version));
    let url = peer.database().await?;
    let nats = nats(bench).await?;
    let mut rows = Vec::new();
    for (writers, commits, messages) in CROWDS {
        say(&format!("  {writers} writers"));
        let mut found = Found::default();
        for _ in 0..bench.options.rounds(ROUNDS) {
            found.peer.push(peer.insert(writers, commits).await?.rate);
            found.ours.add(&store, Path::new(&url), writers).await?;
            found.sqlite.add(&store, &bench.dir, writers).await?;
            if let Some(nats) = &nats {
                found.nats.push(nats.publish(writers, messages).await?.rate);
            }
        }
        rows.extend(found.rows(writers));
    }
    peer.stop().await?;
    Ok(rows)
}

/// Starts NATS, if it is there.
async fn nats(bench: &mut Bench) -> Result<Option<Nats>> {
    let Some(program) = bench.options.nats.clone() else {
        bench.lacks("NATS JetStream: no `--nats` was given");
        return Ok(None);
    };
    let nats = Nats::start(&program, bench.dir.join("nats")).await?;
    say(&format!("  {}", nats.version));
    Ok(Some(nats))
}

/// Rates of one of our stores, and how long an append waited at the median.
#[derive(Debug, Default)]
struct Ours {
    rates: Samples,
    waits: Samples,
}

impl Ours {
    async fn add(&mut self, store: &Path, place: &Path, writers: usize) -> Result<()> {
        let lines = run(store, place, Some(writers)).await?;
        let line: Line = lines.into_iter().next().context("the store says nothing")?;
        self.rates.push(line.rate);
        self.waits.push(line.wait);
        Ok(())
    }

    fn row(&self, name: String) -> Row {
        let note = format!("wait {:.2} ms", self.waits.median());
        Row::new(GROUP, name, "/s", &self.rates).note(note)
    }
}

/// What was measured with so many writers.
#[derive(Debug, Default)]
struct Found {
    ours: Ours,
    sqlite: Ours,
    peer: Samples,
    nats: Samples,
}

impl Found {
    fn rows(&self, writers: usize) -> Vec<Row> {
        let Self {
            ours,
            sqlite,
            peer,
            nats,
        } = self;
        let aim = if writers == BATCHED { 1.0 } else { SHARE };
        let mut rows = vec![
            ours.row(format!("{writers}: on Postgres"))
                .beside(PEER, &ours.rates, peer)
                .aim(Aim::Reach(aim)),
            sqlite
                .row(format!("{writers}: on SQLite"))
                .beside(PEER, &sqlite.rates, peer)
                .aim(Aim::Reach(1.0)),
        ];
        if nats.len() > 0 {
            let name = "NATS JetStream, every message synced";
            let beside = |row: Row, rates: &Samples| row.beside(name, rates, nats);
            let row = |place: &str, rates: &Samples| {
                Row::new(GROUP, format!("{writers}: on {place}"), "/s", rates)
            };
            rows.push(beside(row("Postgres", &ours.rates), &ours.rates));
            rows.push(beside(row("SQLite", &sqlite.rates), &sqlite.rates));
        }
        rows
    }
}
