//! Accepts connections and serves them until the server closes.

mod stall;

use std::{error::Error as _, io, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use hyper::{Request, body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use outlast_api::Connection;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

use self::stall::Stalling;
use super::socket::{Refuse, Socket, Turn, linger};

/// The longest wait for the head of a request; an idle connection is closed after it too.
///
/// Longer than clients keep idle connections, so that none sends into one that is closing.
const HEAD: Duration = Duration::from_secs(120);

/// How long to wait when no connection can be accepted: files may be short.
const PAUSE: Duration = Duration::from_millis(50);

/// Connections beyond the bound that are told so at once; those beyond these are just closed.
const AWAY: usize = 256;

/// How long telling them may take.
const TELLING: Duration = Duration::from_secs(5);

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

/// What answers, and how many may ask at once.
#[derive(Clone)]
pub(super) struct Desk {
    service: Service,
    /// Answers those who are too many.
    away: Router,
    places: Arc<Semaphore>,
    aside: Arc<Semaphore>,
    /// How long a peer may take nothing of what is written to it.
    stall: Duration,
}

impl Desk {
    pub(super) fn new(service: Service, away: Router, connections: usize, stall: Duration) -> Self {
        Self {
            service,
            away,
            places: Arc::new(Semaphore::new(connections)),
            aside: Arc::new(Semaphore::new(AWAY)),
            stall,
        }
    }
}

/// Accepts until told to stop.
pub(super) async fn accept(listener: TcpListener, desk: Desk, phases: Phases, tasks: TaskTracker) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = phases.stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => receive(stream, &desk, &phases, &tasks),
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                tracing::error!(%error, "cannot accept a connection: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Gives a connection a place, or sends it away.
fn receive(stream: TcpStream, desk: &Desk, phases: &Phases, tasks: &TaskTracker) {
    if let Ok(place) = desk.places.clone().try_acquire_owned() {
        tasks.spawn(serve(stream, desk.clone(), phases.clone(), place));
    } else if let Ok(aside) = desk.aside.clone().try_acquire_owned() {
        tracing::warn!("as many connections are open as may be");
        tasks.spawn(turn_away(stream, desk.away.clone(), aside));
    }
}

/// Serves one connection to its end.
async fn serve(stream: TcpStream, desk: Desk, phases: Phases, _place: OwnedSemaphorePermit) {
    // Small frames of previews must not wait for each other; if it cannot be set they do.
    drop(stream.set_nodelay(true));
    let turn = Turn::default();
    let Service { router, refuse } = desk.service;
    let (socket, returned) = Socket::new(stream, turn.clone(), refuse);
    let socket = Stalling::new(socket, desk.stall);
    let end = talk(socket, router, turn, &phases).await;
    let Ok(stream) = returned.await else { return };
    match end {
        End::Over => tokio::select! {
            () = linger(stream) => {}
            () = phases.stop.cancelled() => {}
        },
        // What waits to be sent goes with the connection; if it cannot be, it waits for the peer.
        End::Stalled => drop(stream.set_zero_linger()),
        End::Aborted => {}
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// One side had enough.
    Over,
    /// The peer took nothing of what was written to it.
    Stalled,
    /// The server closes.
    Aborted,
}

/// Answers requests until the connection ends.
async fn talk(socket: Stalling<Socket>, router: Router, turn: Turn, phases: &Phases) -> End {
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
                () = phases.abort.cancelled() => return End::Aborted,
            }
        }
    };
    match ended {
        Ok(()) => End::Over,
        Err(error) => {
            // Peers go away all the time; that is no failure of ours.
            tracing::debug!(%error, "a connection ended: {error}");
            if is_stalled(&error) {
                End::Stalled
            } else {
                End::Over
            }
        }
    }
}

/// Tells whether a write waited too long.
fn is_stalled(error: &hyper::Error) -> bool {
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut)
}

/// Answers one request of a connection that is one too many, and closes it.
async fn turn_away(stream: TcpStream, router: Router, _aside: OwnedSemaphorePermit) {
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // Whoever does not even ask is not waited for.
    drop(timeout(TELLING, connection).await);
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
