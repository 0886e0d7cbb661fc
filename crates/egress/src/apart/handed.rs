//! Listeners of sandboxes, from a server to the egress process. Descriptors do not go over HTTP, so there
//! is a second socket beside the first one.
//!
//! A connection carries one message in JSON and the end of the stream, and one answer. The descriptor
//! comes with the message's first byte.

use std::{io, net::TcpListener, sync::Arc, time::Duration};

use outlast_init::outlet::{give, take};
use outlast_kernel::Bound;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    net::{UnixListener, UnixStream},
    time::timeout,
};

use super::{Peer, tenant::House};

/// No message is longer: an environment names 500 hosts at most.
const LONGEST: u64 = 1 << 20;

/// How long one may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is said when all is done.
const DONE: &[u8] = b"done";

/// Whose listener it is.
#[derive(Debug, Deserialize, Serialize)]
struct Message {
    server: String,
    bound: Bound,
}

/// Gives a listener away; it is served when this returns.
pub(super) async fn give_away(
    peer: &Peer,
    server: &str,
    bound: &Bound,
    outlet: &TcpListener,
) -> io::Result<()> {
    let mut stream = peer.connect(&peer.outlets()).await?;
    let message = Message {
        server: server.to_owned(),
        bound: bound.clone(),
    };
    let bytes = serde_json::to_vec(&message)?;
    let give = || give(&stream, &bytes, outlet);
    let sent = stream.async_io(Interest::WRITABLE, give).await?;
    stream
        .write_all(bytes.get(sent..).unwrap_or_default())
        .await?;
    stream.shutdown().await?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).await?;
    if answer == DONE {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&answer);
    Err(io::Error::other(format!("it said `{words}`")))
}

/// Takes listeners from everybody of that user, for ever.
pub(super) async fn serve(listener: UnixListener, house: Arc<House>) {
    loop {
        let stream = house.peer.accept(&listener).await;
        let taking = receive(stream, house.clone());
        house.tasks.spawn(async move {
            if let Ok(Err(error)) = timeout(PATIENCE, taking).await {
                tracing::warn!("a way out was not taken over: {error}");
            }
        });
    }
}

async fn receive(mut stream: UnixStream, house: Arc<House>) -> io::Result<()> {
    let mut bytes = vec![0; 4096];
    let first = || take(&stream, &mut bytes);
    let (length, came) = stream.async_io(Interest::READABLE, first).await?;
    bytes.truncate(length);
    (&mut stream).take(LONGEST).read_to_end(&mut bytes).await?;
    let Message { server, bound } = serde_json::from_slice(&bytes)?;
    let outlet = TcpListener::from(came.ok_or(io::ErrorKind::UnexpectedEof)?);
    // Something else than a socket has none.
    outlet.local_addr()?;
    let answer = match house.tenant(&server) {
        Ok(tenant) => match tenant.doorman.listen(outlet).await {
            Ok(connections) => {
                tenant.forwarder.serve(bound, connections).await;
                DONE.to_vec()
            }
            Err(error) => error.to_string().into_bytes(),
        },
        Err(declined) => declined.to_string().into_bytes(),
    };
    stream.write_all(&answer).await
}
