//! Accepts what comes out of one hand.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use super::{
    answer::Answer,
    bound::Hand,
    client::Client,
    options::{PAUSE, TELLING},
    slot::Slot,
};
use crate::metric_definitions as metrics;

/// Accepts for ever.
pub(crate) async fn accept(hand: Arc<Hand>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => receive(&hand, stream),
            Err(error) => {
                tracing::warn!(%error, "a hand's connection cannot be accepted: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Gives a connection a place, or says that there is none.
fn receive(hand: &Arc<Hand>, stream: TcpStream) {
    // Small requests must not wait for each other; if it cannot be set they do.
    drop(stream.set_nodelay(true));
    if let Some(slot) = Slot::take(&hand.slots) {
        hand.spawn(Client::proxy(hand.clone(), slot).serve(stream));
        return;
    }
    ::metrics::counter!(metrics::REFUSED, "rule" => "connections").increment(1);
    if let Ok(aside) = hand.away.clone().try_acquire_owned() {
        let most = hand.shared.options.connections;
        hand.spawn(async move {
            let told = timeout(TELLING, turn_away(stream, most)).await;
            // Whoever does not listen is cut off.
            drop((told, aside));
        });
    }
}

/// Says that there are too many, and waits until that was read.
async fn turn_away(mut stream: TcpStream, most: usize) -> std::io::Result<()> {
    let words = format!(
        "this sandbox has {most} connections open, as many as it may (`egress.connections`); close some"
    );
    let answer = Answer::unavailable("connections", words);
    stream.write_all(answer.bare().as_bytes()).await?;
    stream.shutdown().await?;
    // A socket that is closed with bytes unread resets the connection, and the answer with it.
    let mut taken = [0; 4_096];
    while stream.read(&mut taken).await? > 0 {}
    Ok(())
}
