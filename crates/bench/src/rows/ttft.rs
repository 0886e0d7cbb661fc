//! First message of a session to its first token, beside a server that has a container ready before
//! it asks the model.

use std::{net::SocketAddr, time::Duration};

use anyhow::Result;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    api::{Client, message},
    model::{Ask, Endpoint},
    process::Server,
    report::{Aim, Row},
    run::{Bench, say},
    stats::Samples,
    stream::Stream,
};

const GROUP: &str = "First message of a session to its first token";

const PEER: &str = "hand and container first";

/// Sessions at once, and rounds of so many.
const CROWDS: [(usize, usize); 3] = [(1, 24), (16, 4), (64, 2)];

/// What a container takes to start where one is pulled, made and reached over a network.
const CONTAINER: Duration = Duration::from_secs(2);

/// When a session gets its hand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Hand {
    /// With its first call.
    Late,
    /// Before the model is asked: a sandbox in which a call has run, and the rest of a container's
    /// start.
    First,
}

/// What a session was asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Chat,
    Tool,
}

/// What one session took.
#[derive(Clone, Copy, Debug)]
struct Took {
    kind: Kind,
    /// To the first token.
    token: Duration,
    /// To the end of the turn.
    turn: Duration,
}

/// Measures both ways in turns, for some numbers of sessions at once.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let endpoint = Endpoint::start().await?;
    let server = bench
        .setup("ttft")
        .with("OUTLAST_UPSTREAM_BASE_URL", endpoint.url())
        .start()
        .await?;
    let client = Client::open(server.address).await?;
    let mut rows = Vec::new();
    for (sessions, rounds) in CROWDS {
        say(&format!("  {sessions} at once"));
        let mut found = Found::default();
        for _ in 0..bench.options.rounds(rounds) {
            found
                .late
                .extend(crowd(&client, &server, sessions, Hand::Late).await?);
            found
                .first
                .extend(crowd(&client, &server, sessions, Hand::First).await?);
        }
        rows.extend(found.rows(sessions));
    }
    server.stop().await?;
    Ok(rows)
}

/// Runs so many sessions at once: every second one only talks. One at once are two, one of each kind
/// after the other.
async fn crowd(client: &Client, server: &Server, sessions: usize, hand: Hand) -> Result<Vec<Took>> {
    let (mut all, mut running) = (Vec::new(), JoinSet::new());
    for number in 0..sessions.max(2) {
        let kind = if number % 2 == 0 {
            Kind::Chat
        } else {
            Kind::Tool
        };
        let own = client.again(server.address).await?;
        running.spawn(session(own, server.address, kind, hand));
        if sessions == 1 {
            while let Some(done) = running.join_next().await {
                all.push(done??);
            }
        }
    }
    while let Some(done) = running.join_next().await {
        all.push(done??);
    }
    Ok(all)
}

/// Has one session answer one message.
async fn session(mut client: Client, address: SocketAddr, kind: Kind, hand: Hand) -> Result<Took> {
    let session = client.session().await?;
    let mut stream = Stream::of_session(address, &session).await?;
    let begun = Instant::now();
    if hand == Hand::First {
        client
            .send(&session, message(Ask::Call { left: 1 }, 0))
            .await?;
        stream.until("session.status_idle").await?;
        sleep(CONTAINER).await;
    }
    let ask = match kind {
        Kind::Chat => Ask::Talk,
        Kind::Tool => Ask::Work,
    };
    client.send(&session, message(ask, 0)).await?;
    let token = stream.until("event_delta").await?.duration_since(begun);
    let turn = stream
        .until("session.status_idle")
        .await?
        .duration_since(begun);
    drop(stream);
    client.delete(&session).await?;
    Ok(Took { kind, token, turn })
}

/// What was measured with so many sessions at once.
#[derive(Debug, Default)]
struct Found {
    late: Vec<Took>,
    first: Vec<Took>,
}

impl Found {
    fn rows(&self, sessions: usize) -> [Row; 4] {
        let name = |what: &str| format!("{sessions} at once: {what}");
        let note = format!("{} sessions, half of them with a call", self.late.len());
        let token = |took: &[Took]| took.iter().map(|one| ms(one.token)).collect();
        let (late, first): (Samples, Samples) = (token(&self.late), token(&self.first));
        let row = |what: &str, part: f64| {
            let (late, first) = (at(&late, part), at(&first, part));
            Row::new(GROUP, name(what), "ms", &late).beside(PEER, &late, &first)
        };
        let turn = |took: &[Took], kind: Kind| {
            let of = took.iter().filter(|one| one.kind == kind);
            of.map(|one| ms(one.turn)).collect()
        };
        let turns = |what: &str, kind: Kind| {
            let (late, first): (Samples, Samples) =
                (turn(&self.late, kind), turn(&self.first, kind));
            let (late, first) = (at(&late, 0.5), at(&first, 0.5));
            Row::new(GROUP, name(what), "ms", &late).beside(PEER, &late, &first)
        };
        [
            row("first token, half are sooner", 0.5)
                .aim(Aim::Times(0.4))
                .note(note),
            row("first token, 95 % are sooner", 0.95).aim(Aim::Times(0.1)),
            turns("whole turn without a call", Kind::Chat),
            turns("whole turn with a call", Kind::Tool),
        ]
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns one quantile as what was measured.
fn at(samples: &Samples, part: f64) -> Samples {
    [samples.quantile(part)].into_iter().collect()
}
