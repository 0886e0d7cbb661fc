//! The egress process at work.

use std::{io, sync::Arc, time::Duration};

use axum::serve::Listener;
use outlast_model::upstream::Provider;
use outlast_protocol::seam::{Clock, Entropy};
use outlast_vault::Keyring;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use super::{Peer, handed, peer::listen, routes, tenant::House};
use crate::hand;

/// How long to wait when no connection can be accepted: files may be short.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// What an egress process is made of. It has no store: it asks that of the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// What an operator sets of the egress of hands.
    pub hands: hand::Options,
    /// Has the master keys.
    pub ring: Arc<dyn Keyring>,
    /// Has the model's key; none if no model is set.
    pub provider: Option<Arc<dyn Provider>>,
    /// Which models answer, in words.
    pub models: String,
    /// The longest that a token endpoint or MCP server may take to be connected to.
    pub connect: Duration,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Draws keys.
    pub entropy: Arc<dyn Entropy>,
}

/// Serves a server of that user until it is told to stop.
///
/// # Errors
///
/// If the sockets cannot be made.
pub async fn serve(peer: Peer, options: Options, stop: CancellationToken) -> io::Result<()> {
    let (listener, outlets) = (listen(&peer.socket)?, listen(&peer.outlets())?);
    let sockets = [peer.socket.clone(), peer.outlets()];
    let house = Arc::new(House::new(peer.clone(), options));
    let router = routes::router(house.clone());
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        // Neither returns by itself.
        _ = axum::serve(OfPeer(listener, peer), router).into_future() => {}
        () = handed::serve(outlets, house.clone()) => {}
    }
    house.close().await;
    for socket in sockets {
        // What cannot be removed is replaced by the next who listens.
        drop(std::fs::remove_file(socket));
    }
    Ok(())
}

/// Accepts connections of the peer's user alone.
struct OfPeer(UnixListener, Peer);

impl Listener for OfPeer {
    type Io = UnixStream;
    type Addr = ();

    async fn accept(&mut self) -> (UnixStream, ()) {
        (self.1.accept(&self.0).await, ())
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}
