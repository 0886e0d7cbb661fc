//! Accepts what comes out of one hand.

use std::{future::pending, io, net, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use super::{
    answer::Answer,
    bound::Hand,
    client::Client,
    options::{PAUSE, TELLING},
    slot::Slot,
};
use crate::metric_definitions as metrics;

/// Where the connections of a hand come from.
pub(crate) enum Incoming {
    /// A listener that nobody else has.
    Listener(TcpListener),
    /// Somebody who accepts them.
    Accepted(mpsc::Receiver<net::TcpStream>),
}

impl Incoming {
    async fn next(&mut self) -> io::Result<TcpStream> {
        match self {
            Self::Listener(listener) => Ok(listener.accept().await?.0),
            Self::Accepted(connections) => match connections.recv().await {
                Some(stream) => TcpStream::from_std(stream),
                // Nobody accepts any more: the hand is served anew, or not at all.
                None => pending().await,
            },
        }
    }
}

/// How often the same trouble of a hand is told.
const REMINDER: Duration = Duration::from_secs(60);

/// Accepts for ever.
pub(crate) async fn accept(hand: Arc<Hand>, mut incoming: Incoming) {
    let mut told: Option<Instant> = None;
    loop {
        match incoming.next().await {
            Ok(stream) => receive(&hand, stream),
            Err(error) => {
                // It goes on as long as files are short.
                if told.is_none_or(|last| last.elapsed() >= REMINDER) {
                    told = Some(Instant::now());
                    tracing::warn!(%error, "a hand's connections cannot be accepted: {error}");
                }
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
