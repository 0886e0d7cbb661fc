//! Memory of the server: idle, with sessions at rest, with open streams.

use std::time::Duration;

use anyhow::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::sleep;

use super::fill;
use crate::{
    api::Client,
    process::{Memory, Server, Setup},
    report::{Aim, Row},
    run::{Bench, say},
    stats::Samples,
    stream::Stream,
};

const GROUP: &str = "Memory of the server";

const MIB: f64 = 1024.0 * 1024.0;

/// Time for a start to come to rest.
const SETTLE: Duration = Duration::from_secs(2);

/// Time after which sessions that nobody uses may cost nothing.
const REST: Duration = Duration::from_secs(40);

/// Starts whose idle memory is looked at.
const ROUNDS: usize = 4;

/// Descriptors beside those of the streams.
const SPARE: u64 = 200;

/// Measures one server after another.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let (mut rss, mut pss) = (Samples::default(), Samples::default());
    for round in 0..bench.options.rounds(ROUNDS) {
        let server = bench.setup(&format!("idle-{round}")).start().await?;
        sleep(SETTLE).await;
        let memory = server.memory()?;
        rss.push(memory.rss / MIB);
        pss.push(memory.pss / MIB);
        server.stop().await?;
    }
    rows.push(Row::new(GROUP, "idle, resident", "MiB", &rss).aim(Aim::Most(30.0)));
    rows.push(Row::new(
        GROUP,
        "idle, shared pages in proportion",
        "MiB",
        &pss,
    ));
    let setup = bench.setup("memory");
    rows.extend(sessions(&setup, &pss).await?);
    rows.extend(streams(bench, &setup).await?);
    Ok(rows)
}

/// Measures what sessions add that nobody uses any more.
async fn sessions(setup: &Setup, idle: &Samples) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let server = setup.start().await?;
    let mut client = Client::scripted(server.address).await?;
    sleep(SETTLE).await;
    let before = server.memory()?;
    for (more, all) in [(1_000, "1,000"), (9_000, "10,000")] {
        fill::sessions(&mut client, server.address, more).await?;
        say(&format!("  {all} sessions"));
        sleep(REST).await;
        let row = added(
            format!("+ {all} sessions, made by this process"),
            &server,
            before,
        )?;
        rows.push(row.note("40 s after the last one was made"));
    }
    server.stop().await?;
    let server = setup.start().await?;
    sleep(SETTLE).await;
    let now: Samples = [server.memory()?.pss / MIB].into_iter().collect();
    let row = Row::new(GROUP, "after a restart with 10,000 sessions", "MiB", &now);
    rows.push(
        row.beside("idle without sessions", &now, idle)
            .aim(Aim::Above(1.0)),
    );
    server.stop().await?;
    Ok(rows)
}

/// Measures what open streams add, one session each.
async fn streams(bench: &mut Bench, setup: &Setup) -> Result<Vec<Row>> {
    let files = raise()?;
    let server = setup.start().await?;
    let mut client = Client::scripted(server.address).await?;
    let ids = client.sessions().await?;
    sleep(SETTLE).await;
    let before = server.memory()?;
    let mut open = Vec::new();
    let mut rows = Vec::new();
    for (count, name, most) in [(1_000, "1,000", 30.0), (10_000, "10,000", 300.0)] {
        if u64::try_from(count).unwrap_or(u64::MAX) + SPARE > files {
            bench.lacks(format!(
                "{name} streams: a process may open {files} files here"
            ));
            continue;
        }
        for id in ids.iter().take(count).skip(open.len()) {
            open.push(Stream::of_session(server.address, id).await?);
        }
        say(&format!("  {name} streams"));
        sleep(SETTLE).await;
        rows.push(added(format!("+ {name} open streams"), &server, before)?.aim(Aim::Most(most)));
    }
    drop(open);
    server.stop().await?;
    Ok(rows)
}

fn added(name: String, server: &Server, before: Memory) -> Result<Row> {
    let more: Samples = [(server.memory()?.pss - before.pss) / MIB]
        .into_iter()
        .collect();
    Ok(Row::new(GROUP, name, "MiB", &more))
}

/// Allows as many open files as there may be, here and in what is started; returns how many.
fn raise() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    )?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}
