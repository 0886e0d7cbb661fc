//! What a restart costs the turns that run: SIGTERM while all of them work, and a start right behind it.
//!
//! A turn's length is taken from the times of its own events, so that it goes through both servers; the
//! same turns without a restart are what it stands beside.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use outlast_protocol::Micros;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    api::Client,
    process::Setup,
    report::{Aim, Row},
    run::Bench,
    stats::Samples,
};

const GROUP: &str = "Restart under load";

/// Turns that run when the server is stopped.
const TURNS: usize = 32;

/// Restarts.
const ROUNDS: usize = 8;

/// From the last message to SIGTERM.
const BEFORE: Duration = Duration::from_millis(900);

/// What turns do, and what that is called.
type Turn = (&'static str, fn() -> Value);

const KINDS: [Turn; 3] = [
    ("responses of half a second", streams),
    ("calls of a second in a sandbox", calls),
    ("short calls, one after the other", steps),
];

fn streams() -> Value {
    let one = json!({"content": [{"text": "a"}, {"pause_ms": 500}, {"text": "z"}],
        "calls": [{"name": "no_such_tool", "input": {}}]});
    json!([one, one, one, one, {"text": "end"}])
}

fn calls() -> Value {
    let one = bash("sleep 1");
    json!([one, one, {"text": "end"}])
}

fn steps() -> Value {
    let mut all = vec![bash("true"); 40];
    all.push(json!({"text": "end"}));
    json!(all)
}

fn bash(command: &str) -> Value {
    json!({"calls": [{"name": "bash", "input": {"command": command}}]})
}

/// What was measured.
#[derive(Debug, Default)]
struct Found {
    /// Lengths of turns by kind, without and with a restart.
    plain: [Samples; KINDS.len()],
    broken: [Samples; KINDS.len()],
    /// From SIGTERM to the end of the process, and to the next one that serves.
    ended: Samples,
    served: Samples,
    lost: usize,
}

/// Measures turns with and without a restart, in turns.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let setup = bench.setup("restart");
    let mut found = Found::default();
    for _ in 0..bench.options.rounds(ROUNDS) {
        let server = setup.start().await?;
        let mut client = Client::scripted(server.address).await?;
        let sessions = begin(&mut client).await?;
        look(&mut client, &sessions, &mut found.plain, &mut found.lost).await?;
        server.stop().await?;
        restart(&setup, &mut found).await?;
    }
    Ok(rows(&found))
}

async fn restart(setup: &Setup, found: &mut Found) -> Result<()> {
    let server = setup.start().await?;
    let mut client = Client::scripted(server.address).await?;
    let sessions = begin(&mut client).await?;
    sleep(BEFORE).await;
    let begun = Instant::now();
    server.stop().await?;
    found.ended.push_ms(begun.elapsed());
    let next = setup.start().await?;
    found.served.push_ms(begun.elapsed());
    let mut client = client.again(next.address).await?;
    look(&mut client, &sessions, &mut found.broken, &mut found.lost).await?;
    next.stop().await
}

/// Begins all turns; returns their sessions.
async fn begin(client: &mut Client) -> Result<Vec<String>> {
    let mut sessions = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        sessions.push(client.session().await?);
    }
    for (session, (_, steps)) in sessions.iter().zip(KINDS.iter().cycle()) {
        let text = json!({"script": steps()}).to_string();
        let content = json!([{"type": "text", "text": text}]);
        let events = json!({"events": [{"type": "user.message", "content": content}]});
        client
            .send(session, Bytes::from(events.to_string()))
            .await?;
    }
    Ok(sessions)
}

/// Waits for all turns and notes their lengths; one that failed is lost.
async fn look(
    client: &mut Client,
    sessions: &[String],
    lengths: &mut [Samples],
    lost: &mut usize,
) -> Result<()> {
    for (number, session) in sessions.iter().enumerate() {
        client.idle(session).await?;
        let events = client.events(session, &[]).await?;
        let failed = |event: &Value| event.get("type") == Some(&json!("session.error"));
        *lost += usize::from(events.iter().any(failed));
        let at =
            |event: Option<&Value>| event?.get("processed_at")?.as_str().and_then(Micros::parse);
        let first = at(events.first()).context("a turn without a beginning")?;
        let last = at(events.last()).context("a turn without an end")?;
        if let Some(samples) = lengths.get_mut(number % KINDS.len()) {
            samples.push_ms(last.since(first));
        }
        client.delete(session).await?;
    }
    Ok(())
}

fn rows(found: &Found) -> Vec<Row> {
    let kinds = KINDS.iter().zip(&found.plain).zip(&found.broken);
    let mut rows: Vec<_> = kinds
        .map(|(((name, _), plain), broken)| {
            let name = format!("a turn of {name}");
            let row = Row::new(GROUP, name, "ms", broken);
            row.beside("without a restart", broken, plain)
                .aim(Aim::Above(1_000.0))
                .note(format!("{} of {} turns lost", found.lost, TURNS * ROUNDS))
        })
        .collect();
    rows.push(Row::new(
        GROUP,
        "SIGTERM to the end of the process",
        "ms",
        &found.ended,
    ));
    rows.push(Row::new(
        GROUP,
        "SIGTERM to the next one that serves",
        "ms",
        &found.served,
    ));
    rows
}
