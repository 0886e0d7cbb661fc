//! Accepts on listeners that the server handed over, in a thread of its own.
//!
//! Whether a socket blocks is a flag that all who have it share, so whoever handed one over can make the
//! thread that accepts on it wait for ever. That is this one, and nothing else runs in it.

use std::{
    io,
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::Duration,
};

use rustix::net::{AddressFamily, Shutdown, SocketType, shutdown, sockopt};
use tokio::{
    net::TcpListener as Listener,
    runtime::{Builder, Handle},
    sync::mpsc,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

/// Connections of one listener that wait to be served.
const WAITING: usize = 16;

/// How long to wait when none can be accepted: files may be short.
const PAUSE: Duration = Duration::from_secs(1);

/// How long the thread may take to end by itself.
const ENDING: Duration = Duration::from_secs(1);

/// The thread that accepts for one server.
pub(super) struct Doorman {
    handle: Handle,
    stop: CancellationToken,
    /// Dropped by the thread, when it ends.
    ended: Mutex<mpsc::Receiver<()>>,
    listeners: Mutex<Vec<Weak<Listener>>>,
}

impl Doorman {
    pub(super) fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, stop) = (runtime.handle().clone(), CancellationToken::new());
        let (until, (alive, ended)) = (stop.clone(), mpsc::channel(1));
        thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || {
                runtime.block_on(until.cancelled());
                drop((runtime, alive));
            })?;
        Ok(Self {
            handle,
            stop,
            ended: Mutex::new(ended),
            listeners: Mutex::default(),
        })
    }

    /// Accepts on a listener until nobody takes what comes.
    pub(super) async fn listen(
        &self,
        listener: TcpListener,
    ) -> io::Result<mpsc::Receiver<TcpStream>> {
        listens(&listener)?;
        let accepting = self.handle.spawn(async move {
            listener.set_nonblocking(true)?;
            Listener::from_std(listener).map(Arc::new)
        });
        let listener = accepting.await.map_err(io::Error::other)??;
        {
            let mut known = self
                .listeners
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            known.retain(|one| one.strong_count() > 0);
            known.push(Arc::downgrade(&listener));
        }
        let (sender, receiver) = mpsc::channel(WAITING);
        self.handle.spawn(accept(listener, sender));
        Ok(receiver)
    }

    /// Ends it. A thread that is made to wait is woken up by shutting down what it waits at.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        let ended = async {
            while !self.has_ended() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(ENDING, ended).await.is_ok() {
            return;
        }
        tracing::error!("the server has the egress wait at a listener that it handed over");
        let known = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for listener in known.iter().filter_map(Weak::upgrade) {
            if let Err(error) = shutdown(&*listener, Shutdown::Both) {
                tracing::debug!(%error, "a listener is shut down already");
            }
        }
    }

    fn has_ended(&self) -> bool {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(
            ended.try_recv(),
            Err(mpsc::error::TryRecvError::Disconnected)
        )
    }
}

/// Refuses what is no listener of TCP: it would fail for ever.
fn listens(socket: &TcpListener) -> io::Result<()> {
    let is_inet = matches!(
        sockopt::socket_domain(socket)?,
        AddressFamily::INET | AddressFamily::INET6
    );
    let is_stream = sockopt::socket_type(socket)? == SocketType::STREAM;
    if is_inet && is_stream && sockopt::socket_acceptconn(socket)? {
        return Ok(());
    }
    let words = "what was handed over is no socket that listens for TCP";
    Err(io::Error::new(io::ErrorKind::InvalidInput, words))
}

async fn accept(listener: Arc<Listener>, connections: mpsc::Sender<TcpStream>) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = connections.closed() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted.and_then(|(stream, _)| stream.into_std()) {
            Ok(stream) => {
                if connections.send(stream).await.is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                tracing::warn!(%error, "a hand's listener was shut down");
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "a hand's connection cannot be accepted: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}
