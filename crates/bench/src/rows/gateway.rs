//! What the model gateway adds to the first token, beside the model itself.

use std::{net::SocketAddr, time::Duration};

use anyhow::Result;
use bytes::Bytes;
use hyper::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    http::Connection,
    model::{Ask, Endpoint},
    report::{Aim, Row},
    run::Bench,
    stats::Samples,
    stream::Stream,
};

const GROUP: &str = "First token through the model gateway";

/// Pairs.
const ROUNDS: usize = 400;

/// Silence between two measurements.
const GAP: Duration = Duration::from_millis(10);

/// Measures through the server and without it, in turns.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut endpoint = Endpoint::start().await?;
    let server = bench
        .setup("gateway")
        .with("OUTLAST_UPSTREAM_BASE_URL", endpoint.url());
    let server = server.start().await?;
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    for _ in 0..bench.options.rounds(ROUNDS) {
        sleep(GAP).await;
        floor.push_ms(asked(endpoint.address, &mut endpoint).await?);
        sleep(GAP).await;
        ours.push_ms(asked(server.address, &mut endpoint).await?);
    }
    server.stop().await?;
    let row = Row::new(GROUP, "`POST /v1/messages`, streamed", "ms", &ours);
    Ok(vec![
        row.beside("the model itself", &ours, &floor)
            .aim(Aim::Above(1.0)),
    ])
}

/// Asks for a stream; returns the time from the request's first byte to the first token, without what
/// the model took.
async fn asked(address: SocketAddr, endpoint: &mut Endpoint) -> Result<Duration> {
    let content = json!([{"type": "text", "text": Ask::Talk.text(0)}]);
    let body = json!({
        "model": "bench", "max_tokens": 100, "stream": true,
        "messages": [{"role": "user", "content": content}],
    });
    let connection = Connection::open(address).await?;
    let (path, body) = ("/v1/messages", Bytes::from(body.to_string()));
    let began = Instant::now();
    let mut stream = Stream::open(connection, Method::POST, path, body).await?;
    let came = stream.until("content_block_delta").await?;
    let seen = endpoint.next().await?;
    // To its end, so that the answer is not on its way during what comes next.
    stream.until("message_stop").await?;
    let thought = seen.answered.duration_since(seen.arrived);
    Ok(came.duration_since(began).saturating_sub(thought))
}
