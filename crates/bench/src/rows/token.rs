//! From the model's first token to the client's first `event_delta`, beside a plain relay of bytes.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use hyper::Method;
use serde_json::json;
use tokio::time::sleep;

use crate::{
    api::{Client, message},
    http::Connection,
    model::{Ask, Endpoint},
    relay::Relay,
    report::{Aim, Row},
    run::Bench,
    stats::Samples,
    stream::Stream,
};

const GROUP: &str = "First token of the model to first `event_delta`";

/// Pairs.
const ROUNDS: usize = 200;

/// Messages of one session; then a new one, so that the context stays small.
const TURNS: usize = 20;

/// Silence between two measurements.
const GAP: Duration = Duration::from_millis(10);

/// Measures through the server and through a relay, in turns.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut endpoint = Endpoint::start().await?;
    let server = bench
        .setup("token")
        .with("OUTLAST_UPSTREAM_BASE_URL", endpoint.url());
    let server = server.start().await?;
    let relay = Relay::start(endpoint.address).await?;
    let mut client = Client::open(server.address).await?;
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    for _ in 0..bench.options.rounds(ROUNDS).div_ceil(TURNS) {
        let session = client.session().await?;
        let mut stream = Stream::of_session(server.address, &session).await?;
        for _ in 0..TURNS {
            sleep(GAP).await;
            floor.push_ms(relayed(&relay, &mut endpoint).await?);
            sleep(GAP).await;
            client.send(&session, message(Ask::Talk, 0)).await?;
            let came = stream.until("event_delta").await?;
            ours.push_ms(came.duration_since(endpoint.next().await?.answered));
            // To the end of the turn, so that nothing of it is taken for the next one's.
            stream.until("session.status_idle").await?;
        }
        drop(stream);
        client.delete(&session).await?;
    }
    server.stop().await?;
    let row = Row::new(GROUP, "one session, one reader", "ms", &ours);
    Ok(vec![
        row.beside("the same bytes relayed", &ours, &floor)
            .aim(Aim::Above(1.0)),
    ])
}

/// Asks the model through the relay; returns how long its first token was on the way.
async fn relayed(relay: &Relay, endpoint: &mut Endpoint) -> Result<Duration> {
    let content = json!([{"type": "text", "text": Ask::Talk.text(0)}]);
    let body = json!({"stream": true, "messages": [{"role": "user", "content": content}]});
    let connection = Connection::open(relay.address).await?;
    let (path, body) = ("/v1/messages", Bytes::from(body.to_string()));
    let mut stream = Stream::open(connection, Method::POST, path, body).await?;
    let came = stream.until("content_block_delta").await?;
    let seen = endpoint.next().await?;
    // To its end, so that the answer is not on its way during what comes next.
    stream.until("message_stop").await?;
    Ok(came.duration_since(seen.answered))
}
