//! Accepts connections and serves them until the server closes.

use std::{io, time::Duration};

use axum::{Router, body::Body};
use hyper::{Request, body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use outlast_api::Connection;
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

use super::socket::{Refuse, Socket, Turn, linger};

/// The longest wait for the head of a request; an idle connection is closed after it too.
///
/// Longer than clients keep idle connections, so that none sends into one that is closing.
const HEAD: Duration = Duration::from_secs(120);

/// How long to wait when no connection can be accepted: files may be short.
const PAUSE: Duration = Duration::from_millis(50);

/// How far closing has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Phases {
    /// Accept nothing; finish the request at hand and close.
    pub(super) stop: CancellationToken,
    /// Cut off.
    pub(super) abort: CancellationToken,
}

/// What every connection is served with.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) router: Router,
    pub(super) refuse: Refuse,
}

/// Accepts until told to stop.
pub(super) async fn accept(
    listener: TcpListener,
    service: Service,
    phases: Phases,
    tasks: TaskTracker,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = phases.stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                tasks.spawn(serve(stream, service.clone(), phases.clone()));
            }
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                tracing::error!(%error, "cannot accept a connection: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Serves one connection to its end.
async fn serve(stream: TcpStream, service: Service, phases: Phases) {
    // Small frames of previews must not wait for each other; if it cannot be set they do.
    drop(stream.set_nodelay(true));
    let turn = Turn::default();
    let (socket, returned) = Socket::new(stream, turn.clone(), service.refuse);
    if !talk(socket, service.router, turn, &phases).await {
        return;
    }
    if let Ok(stream) = returned.await {
        tokio::select! {
            () = linger(stream) => {}
            () = phases.stop.cancelled() => {}
        }
    }
}

/// Answers requests until one side has enough; tells whether it was not cut off.
async fn talk(socket: Socket, router: Router, turn: Turn, phases: &Phases) -> bool {
    let (word, _open) = Connection::open();
    let answered = turn.clone();
    let service = router
        .map_request(move |request| tell(request, &word, &turn))
        .map_response(move |response| answered.answer(response));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(service));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = phases.stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = phases.abort.cancelled() => return false,
            }
        }
    };
    if let Err(error) = ended {
        // Peers go away all the time; that is no failure of ours.
        tracing::debug!(%error, "a connection ended: {error}");
    }
    true
}

/// Lets a request know its connection, and the connection that it has one.
fn tell(request: Request<Incoming>, connection: &Connection, turn: &Turn) -> Request<Body> {
    turn.begin();
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(connection.clone());
    request
}

/// Tells whether a peer went away before it was accepted.
fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
