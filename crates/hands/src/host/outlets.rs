//! Ways out of hands, from a host to a server. Descriptors do not go over HTTP, so there is a second
//! socket beside the first one.
//!
//! A connection carries one question, an incarnation in text and the end of the stream, and one
//! answer in JSON and the end. The descriptor comes with the answer's first byte.

use std::{io, net::TcpListener, os::fd::OwnedFd, sync::Arc, time::Duration};

use outlast_init::outlet::{give, take};
use outlast_protocol::id::IncarnationId;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};

use super::{Place, place::of_this_user, routes::Shared, serve::PAUSE, wire::Fault};

/// Neither a question nor an answer is longer.
const LONGEST: u64 = 4096;

/// How long a question may take to come, and its answer to leave.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a host answers.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// The descriptor came along.
    Open,
    /// That hand has none, or does not live.
    None,
    /// It could not be had.
    Failed(Fault),
}

/// Answers everybody of this user, for ever.
pub(super) async fn serve(listener: UnixListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let answering = answer(stream, shared.clone());
                shared.tasks.spawn(async move {
                    if let Ok(Err(error)) = timeout(PATIENCE, answering).await {
                        tracing::warn!("a way out was not handed over: {error}");
                    }
                });
            }
            Err(error) => {
                tracing::error!(%error, "cannot accept a connection: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn answer(mut stream: UnixStream, shared: Arc<Shared>) -> io::Result<()> {
    of_this_user(&stream)?;
    let mut asked = String::new();
    (&mut stream)
        .take(LONGEST)
        .read_to_string(&mut asked)
        .await?;
    let incarnation = IncarnationId::parse(&asked).ok_or(io::ErrorKind::InvalidInput)?;
    let (answer, outlet) = match shared.provisioner.outlet(incarnation).await {
        Ok(Some(outlet)) => (Answer::Open, Some(outlet)),
        Ok(None) => (Answer::None, None),
        Err(error) => (Answer::Failed(error.into()), None),
    };
    let bytes = serde_json::to_vec(&answer)?;
    let sent = match &outlet {
        Some(outlet) => {
            let give = || give(&stream, &bytes, outlet);
            stream.async_io(Interest::WRITABLE, give).await?
        }
        None => 0,
    };
    stream
        .write_all(bytes.get(sent..).unwrap_or_default())
        .await
}

/// Asks the host of a place once.
pub(super) async fn ask(
    place: &Place,
    incarnation: IncarnationId,
) -> io::Result<Option<TcpListener>> {
    let mut stream = place.connect_for_outlets().await?;
    stream.write_all(incarnation.to_string().as_bytes()).await?;
    stream.shutdown().await?;
    let mut bytes = vec![0; 512];
    let receive = || take(&stream, &mut bytes);
    let (length, came) = stream.async_io(Interest::READABLE, receive).await?;
    bytes.truncate(length);
    stream.take(LONGEST).read_to_end(&mut bytes).await?;
    match serde_json::from_slice(&bytes)? {
        Answer::Open => listener(came.ok_or(io::ErrorKind::UnexpectedEof)?).map(Some),
        Answer::None => Ok(None),
        Answer::Failed(fault) => Err(fault.into()),
    }
}

fn listener(came: OwnedFd) -> io::Result<TcpListener> {
    let listener = TcpListener::from(came);
    // Something else than a socket has none.
    listener.local_addr().map(|_| listener)
}
