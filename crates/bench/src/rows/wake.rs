//! The first message after a restart, to a session with a long log and to one with a short log.
//!
//! Both have the same conversation. What makes the log long are interrupts of an idle session: they
//! stand in the log, and in no request.

use std::time::Duration;

use anyhow::{Result, ensure};
use outlast_protocol::limits;
use tokio::time::{Instant, sleep};

use crate::{
    api::{Client, interrupts, message},
    model::{Ask, Endpoint},
    process::Setup,
    report::{Aim, Row},
    run::{Bench, say},
    stats::Samples,
};

const GROUP: &str = "Wake after a restart: message to model request";

/// Events of the long logs.
const LONG: usize = 100_000;

/// Turns of every session: about ten events each.
const TURNS: usize = 10;

/// Restarts.
const ROUNDS: usize = 8;

/// Silence before each message.
const GAP: Duration = Duration::from_millis(50);

/// Sessions that were made before the restarts.
#[derive(Debug, Default)]
struct Made {
    short: Vec<String>,
    /// A turn after every tenth of the log.
    long: Vec<String>,
    /// All turns at the beginning: no brain has read the rest.
    unread: Vec<String>,
}

/// Builds the sessions, then measures each of them once, after a restart of its own.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut endpoint = Endpoint::start().await?;
    let setup = bench
        .setup("wake")
        .with("OUTLAST_UPSTREAM_BASE_URL", endpoint.url());
    let rounds = bench.options.rounds(ROUNDS);
    let made = build(&setup, rounds).await?;
    let mut found = [Found::default(), Found::default(), Found::default()];
    let ready = made.short.iter().zip(&made.long).zip(&made.unread);
    for (round, ((one, two), three)) in ready.enumerate() {
        let server = setup.start().await?;
        let mut client = Client::open(server.address).await?;
        // What every first request of a process pays is paid here.
        let other = client.session().await?;
        wake(&mut client, &mut endpoint, &other).await?;
        let mut order: Vec<_> = [one, two, three].into_iter().zip(&mut found).collect();
        order.rotate_left(round % 3);
        for (session, found) in order {
            sleep(GAP).await;
            let (took, bytes) = wake(&mut client, &mut endpoint, session).await?;
            found.waits.push_ms(took);
            found.bytes = bytes;
        }
        server.stop().await?;
    }
    let [short, long, unread] = &found;
    let row = |name: &str, ours: &Found| {
        let row = Row::new(GROUP, name, "ms", &ours.waits);
        let row = row
            .beside("100 events", &ours.waits, &short.waits)
            .aim(Aim::Times(2.0));
        row.note(format!(
            "requests of {} and {} bytes",
            ours.bytes, short.bytes
        ))
    };
    Ok(vec![
        row("100,000 events, a turn now and then", long),
        row(
            "100,000 events, 100,000 of them since the last turn",
            unread,
        ),
    ])
}

/// What was measured of one kind of session.
#[derive(Debug, Default)]
struct Found {
    waits: Samples,
    /// Bytes of the last request.
    bytes: usize,
}

async fn build(setup: &Setup, rounds: usize) -> Result<Made> {
    let server = setup.start().await?;
    let mut client = Client::open(server.address).await?;
    let mut made = Made::default();
    for round in 0..rounds {
        say(&format!("  building logs {} of {rounds}", round + 1));
        made.short.push(grown(&mut client, 0, 0).await?);
        made.long.push(grown(&mut client, LONG / TURNS, 0).await?);
        made.unread.push(grown(&mut client, 0, LONG).await?);
    }
    server.stop().await?;
    Ok(made)
}

/// Makes a session with so many interrupts before each turn, and so many at the end.
async fn grown(client: &mut Client, between: usize, after: usize) -> Result<String> {
    let session = client.session().await?;
    for _ in 0..TURNS {
        interrupt(client, &session, between).await?;
        client.turn(&session, Ask::Say).await?;
    }
    interrupt(client, &session, after).await?;
    Ok(session)
}

async fn interrupt(client: &mut Client, session: &str, count: usize) -> Result<()> {
    ensure!(
        count.is_multiple_of(limits::EVENTS),
        "{count} events are no whole requests"
    );
    for _ in 0..count / limits::EVENTS {
        client.send(session, interrupts(limits::EVENTS)).await?;
    }
    Ok(())
}

/// Sends a message; returns how long its request took and its bytes, once the turn is over.
async fn wake(
    client: &mut Client,
    endpoint: &mut Endpoint,
    session: &str,
) -> Result<(Duration, usize)> {
    endpoint.clear();
    let begun = Instant::now();
    client.send(session, message(Ask::Say, 0)).await?;
    let seen = endpoint.next().await?;
    client.idle(session).await?;
    Ok((seen.arrived.duration_since(begun), seen.bytes))
}
