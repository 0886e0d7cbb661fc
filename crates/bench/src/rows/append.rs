//! Durable appends of clients, beside single-row commits in Postgres and bare syncs.

mod crowd;
pub(crate) mod store;

use std::time::Duration;

use anyhow::Result;

use crate::{
    api::Client,
    disk::Disk,
    model::{Ask, Endpoint},
    postgres::Postgres,
    process::Server,
    report::{Aim, Row},
    run::{Bench, say},
    stats::Samples,
};

use self::crowd::{Crowd, What};

const GROUP: &str = "Durable appends";

/// Writers, and sessions that each of them has per round.
const CROWDS: [(usize, usize); 4] = [(1, 50), (16, 20), (64, 10), (256, 4)];

/// Rounds of each crowd.
const ROUNDS: usize = 8;

/// How long the bare disk is measured in each round.
const WINDOW: Duration = Duration::from_secs(1);

const PEER: &str = "Postgres, one row of 1 KiB";

/// Measures each number of writers, ours and the peer in turns.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let endpoint = Endpoint::start().await?;
    // One slot for brains, which the first session takes for good: messages to all others are
    // accepted and wait.
    let setup = bench
        .setup("append")
        .with("OUTLAST_UPSTREAM_BASE_URL", endpoint.url());
    let server = setup.with("OUTLAST__KERNEL__BRAINS", "1").start().await?;
    let mut client = Client::open(server.address).await?;
    let held = client.session().await?;
    client
        .send(&held, crate::api::message(Ask::Hold, 0))
        .await?;
    let peer = peer(bench).await?;
    let disk = Disk::open(&bench.dir)?;
    let mut rows = Vec::new();
    let mut peers = Vec::new();
    for (writers, sessions) in CROWDS {
        say(&format!("  {writers} writers"));
        let mut crowd = Crowd::open(&client, server.address, writers, sessions).await?;
        let mut found = Found::new(writers);
        for _ in 0..bench.options.rounds(ROUNDS) {
            found
                .round(&mut crowd, &server, peer.as_ref(), &disk)
                .await?;
        }
        rows.extend(found.rows());
        peers.push((writers, found.peer));
    }
    // Its only turn never ends: there is nothing to wait for.
    drop(server);
    if let Some(peer) = peer {
        peer.stop().await?;
    }
    rows.extend(store::measure(bench, &peers).await?);
    Ok(rows)
}

/// Starts Postgres, if it is installed.
async fn peer(bench: &mut Bench) -> Result<Option<Postgres>> {
    let Some(programs) = bench.options.postgres.clone() else {
        bench.lacks("Postgres: no `--postgres` was given");
        return Ok(None);
    };
    let peer = Postgres::start(&programs, bench.dir.join("postgres")).await?;
    say(&format!("  {}", peer.version));
    Ok(Some(peer))
}

/// What was measured with so many writers.
#[derive(Debug)]
struct Found {
    writers: usize,
    messages: Samples,
    message_waits: Samples,
    message_cpu: Samples,
    interrupts: Samples,
    http: Samples,
    peer: Samples,
    peer_waits: Samples,
    disk: Samples,
    disk_waits: Samples,
}

impl Found {
    fn new(writers: usize) -> Self {
        let new = Samples::default;
        Self {
            writers,
            messages: new(),
            message_waits: new(),
            message_cpu: new(),
            interrupts: new(),
            http: new(),
            peer: new(),
            peer_waits: new(),
            disk: new(),
            disk_waits: new(),
        }
    }

    async fn round(
        &mut self,
        crowd: &mut Crowd,
        server: &Server,
        peer: Option<&Postgres>,
        disk: &Disk,
    ) -> Result<()> {
        crowd.prepare().await?;
        self.http.push(crowd.run(What::Health).await?.rate);
        self.interrupts
            .push(crowd.run(What::Interrupts).await?.rate);
        let before = server.cpu()?;
        let messages = crowd.run(What::Messages).await?;
        let used = server.cpu()?.saturating_sub(before);
        self.message_cpu
            .push(used.as_secs_f64() * 1e6 / messages.count);
        self.messages.push(messages.rate);
        self.message_waits.push(messages.waits.median());
        if let Some(peer) = peer {
            let commits = peer.insert(self.writers, crowd.each_sends()).await?;
            self.peer.push(commits.rate);
            self.peer_waits.push(commits.waits.median());
        }
        if self.writers == 1 {
            let rate = disk.rate(WINDOW).await?;
            self.disk.push(rate);
            self.disk_waits.push(1e3 / rate);
        }
        Ok(())
    }

    fn rows(&self) -> Vec<Row> {
        let writers = self.writers;
        let sessions = if writers == 1 {
            "1 session".to_owned()
        } else {
            format!("{writers} sessions")
        };
        let name = |what: &str| format!("{sessions}: {what}");
        let cpu = format!(
            "{:.0} us of the server's processor time each",
            self.message_cpu.median()
        );
        let rate = Row::new(
            GROUP,
            name("messages of 1 KiB accepted over HTTP"),
            "/s",
            &self.messages,
        );
        let mut rows = vec![
            rate.beside(PEER, &self.messages, &self.peer)
                .aim(Aim::Reach(1.0))
                .note(cpu),
        ];
        let waits = Row::new(
            GROUP,
            name("wait for an accepted message"),
            "ms",
            &self.message_waits,
        );
        rows.push(waits.beside(PEER, &self.message_waits, &self.peer_waits));
        let row = Row::new(
            GROUP,
            name("interrupts accepted over HTTP"),
            "/s",
            &self.interrupts,
        );
        rows.push(
            row.beside(PEER, &self.interrupts, &self.peer)
                .note("two records each"),
        );
        if writers == 1 {
            let row = Row::new(
                GROUP,
                name("wait for an accepted message"),
                "ms",
                &self.message_waits,
            );
            let disk = "fdatasync of 1.2 KB without pause";
            rows.push(row.beside(disk, &self.message_waits, &self.disk_waits));
        }
        let row = Row::new(
            GROUP,
            name("`GET /healthz` by the same clients"),
            "/s",
            &self.http,
        );
        rows.push(row.note("what HTTP alone takes on these processors"));
        rows
    }
}
