//! From an accepted message to the model request leaving, beside one sync after the same silence.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use crate::{
    api::{Client, message},
    disk::Disk,
    model::{Ask, Endpoint},
    report::{Aim, Row},
    run::Bench,
    stats::Samples,
};

const GROUP: &str = "Accepted message to model request";

/// Silences before each measurement, in milliseconds: a disk that rested answers later.
const GAPS: [u64; 3] = [5, 20, 100];

/// Pairs per silence.
const ROUNDS: usize = 100;

/// Messages of one session; then a new one, so that the context stays small.
const TURNS: usize = 20;

/// Bytes of a message.
const BYTES: usize = 256;

/// Measures each silence.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut endpoint = Endpoint::start().await?;
    let server = bench
        .setup("message")
        .with("OUTLAST_UPSTREAM_BASE_URL", endpoint.url());
    let server = server.start().await?;
    let mut client = Client::open(server.address).await?;
    let disk = Disk::open(&bench.dir)?;
    let mut rows = Vec::new();
    let mut firsts = Samples::default();
    for gap in GAPS {
        let gap = Duration::from_millis(gap);
        let mut found = Found::default();
        for round in 0..bench.options.rounds(ROUNDS) / TURNS + 1 {
            let session = client.session().await?;
            for turn in 0..=TURNS {
                let floor = settled(gap, &disk).await?;
                sleep(gap).await;
                let (sent, answered) = turn_of(&mut client, &mut endpoint, &session).await?;
                if turn == 0 {
                    firsts.push_ms(sent);
                } else {
                    found.sent.push_ms(sent);
                    found.acknowledged.push_ms(answered);
                    found.floor.push_ms(floor);
                }
            }
            client.delete(&session).await?;
            if round == 0 && gap.as_millis() == 5 {
                // The first session pays for caches that all later ones find warm.
                found = Found::default();
            }
        }
        rows.extend(found.rows(gap));
    }
    let name = "first message of a session (also records what the model is told)";
    rows.push(Row::new(GROUP, name, "ms", &firsts));
    server.stop().await?;
    Ok(rows)
}

/// What was measured after one silence.
#[derive(Debug, Default)]
struct Found {
    sent: Samples,
    acknowledged: Samples,
    floor: Samples,
}

impl Found {
    fn rows(&self, gap: Duration) -> [Row; 2] {
        let gap = gap.as_millis();
        let floor = "fdatasync of 1.2 KB";
        let sent = Row::new(
            GROUP,
            format!("POST to request at the model, after {gap} ms"),
            "ms",
            &self.sent,
        );
        let name = format!("POST to its answer, after {gap} ms");
        let answered = Row::new(GROUP, name, "ms", &self.acknowledged);
        [
            sent.beside(floor, &self.sent, &self.floor)
                .aim(Aim::Above(1.0)),
            answered.beside(floor, &self.acknowledged, &self.floor),
        ]
    }
}

/// Waits, then syncs once.
async fn settled(gap: Duration, disk: &Disk) -> Result<Duration> {
    sleep(gap).await;
    disk.sync().await
}

/// Sends a message; returns how long its request and its answer took, once the turn is over.
async fn turn_of(
    client: &mut Client,
    endpoint: &mut Endpoint,
    session: &str,
) -> Result<(Duration, Duration)> {
    endpoint.clear();
    let events = message(Ask::Say, BYTES);
    let begun = Instant::now();
    client.send(session, events).await?;
    let answered = begun.elapsed();
    let seen = endpoint.next().await?;
    client.idle(session).await?;
    Ok((seen.arrived.duration_since(begun), answered))
}
