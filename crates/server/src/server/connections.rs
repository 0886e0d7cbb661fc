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
use rustix::process::{Resource, getrlimit};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout},
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

/// How often the same trouble is told.
const REMINDER: Duration = Duration::from_secs(60);

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
        let places = fitting(connections, getrlimit(Resource::Nofile).current);
        Self {
            service,
            away,
            places: Arc::new(Semaphore::new(places)),
            aside: Arc::new(Semaphore::new(AWAY.min(places.div_ceil(8)))),
            stall,
        }
    }
}

/// Says the same once a minute: what goes wrong with each connection would fill the log.
#[derive(Debug, Default)]
struct Seldom(Option<Instant>);

impl Seldom {
    /// Tells whether it is time again.
    fn is_due(&mut self) -> bool {
        let due = self.0.is_none_or(|last| last.elapsed() >= REMINDER);
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}

/// Bounds connections by what this process may open: the store, sandboxes and upstreams need files too.
fn fitting(wanted: usize, files: Option<u64>) -> usize {
    let most = files.map_or(usize::MAX, |files| {
        usize::try_from(files / 2).unwrap_or(usize::MAX)
    });
    if most < wanted {
        tracing::warn!(
            "this process may open {} files, so at most {most} connections are taken and not {wanted} \
             (`server.connections`); raise the limit: ulimit -n 65536",
            files.unwrap_or_default()
        );
    }
    wanted.min(most)
}

/// Accepts until told to stop.
pub(super) async fn accept(listener: TcpListener, desk: Desk, phases: Phases, tasks: TaskTracker) {
    let (mut failed, mut full) = (Seldom::default(), Seldom::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = phases.stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                if !receive(stream, &desk, &phases, &tasks) && full.is_due() {
                    tracing::warn!("as many connections are open as may be");
                }
            }
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                if failed.is_due() {
                    tracing::error!(%error, "cannot accept connections: {error}");
                }
                sleep(PAUSE).await;
            }
        }
    }
}

/// Gives a connection a place, or sends it away; tells whether it got one.
fn receive(stream: TcpStream, desk: &Desk, phases: &Phases, tasks: &TaskTracker) -> bool {
    if let Ok(place) = desk.places.clone().try_acquire_owned() {
        tasks.spawn(serve(stream, desk.clone(), phases.clone(), place));
        return true;
    }
    if let Ok(aside) = desk.aside.clone().try_acquire_owned() {
        tasks.spawn(turn_away(stream, desk.away.clone(), aside));
    }
    false
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        assert_eq!(fitting(16_384, None), 16_384);
        assert_eq!(fitting(16_384, Some(65_536)), 16_384);
        assert_eq!(fitting(16_384, Some(256)), 128);
        assert_eq!(fitting(10, Some(256)), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_trouble_is_told_once_a_minute() {
        let mut seldom = Seldom::default();
        assert!(seldom.is_due() && !seldom.is_due());
        tokio::time::advance(REMINDER).await;
        assert!(seldom.is_due() && !seldom.is_due());
    }
}
