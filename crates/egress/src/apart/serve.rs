//! The egress process at work.

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use outlast_model::upstream::Provider;
use outlast_protocol::seam::{Clock, Entropy};
use outlast_vault::Keyring;
use tokio::{net::UnixListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

use super::{Peer, handed, peer::listen, routes, tenant::House};
use crate::hand;

/// How long to wait when no connection can be accepted: files may be short.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(30);

/// Connections of the server at once; each of its requests has one.
const CONNECTIONS: usize = 4_096;

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

/// Where a server finds an egress process; it may connect by now.
#[derive(Debug)]
pub struct Sockets {
    peer: Peer,
    listener: UnixListener,
    outlets: UnixListener,
}

impl Sockets {
    /// Makes them, in place of those that a process left which is gone.
    ///
    /// # Errors
    ///
    /// If they cannot be made, or something else is there.
    pub fn bind(peer: Peer) -> io::Result<Self> {
        let (listener, outlets) = (listen(&peer.socket)?, listen(&peer.outlets())?);
        Ok(Self {
            peer,
            listener,
            outlets,
        })
    }
}

/// Serves a server of the peer's user until it is told to stop.
pub async fn serve(sockets: Sockets, options: Options, stop: CancellationToken) {
    let Sockets {
        peer,
        listener,
        outlets,
    } = sockets;
    let sockets = [peer.socket.clone(), peer.outlets()];
    let house = Arc::new(House::new(peer.clone(), options));
    let router = routes::router(house.clone());
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        // Neither returns by itself.
        () = accept(&listener, &peer, &router, &house) => {}
        () = handed::serve(outlets, house.clone()) => {}
    }
    house.close().await;
    for socket in sockets {
        // What cannot be removed is replaced by the next who listens.
        drop(std::fs::remove_file(socket));
    }
}

/// Serves connections of the peer's user alone, for ever.
async fn accept(listener: &UnixListener, peer: &Peer, router: &Router, house: &House) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // It is never closed.
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let stream = TokioIo::new(peer.accept(listener).await);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .serve_connection(stream, TowerToHyperService::new(router.clone()))
            .with_upgrades();
        house.tasks.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection of the server broke: {error}");
            }
            drop(place);
        });
    }
}
