//! A host at work: from its lock to its end.

use std::{io, sync::Arc, time::Duration};

use axum::serve::Listener;
use tokio::{
    net::{UnixListener, UnixStream},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    About, Lock, VERSION, outlets,
    place::of_this_user,
    routes::{self, Shared},
    wire::milliseconds,
};
use crate::{Keep, Provisioner, files::Abilities};

/// How often a host looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(250);

/// How long to wait when no connection can be accepted: files may be short.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// How long answers may take to leave once everything has ended.
const FAREWELL: Duration = Duration::from_secs(5);

/// What a host is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// What isolation its hands have, in words.
    pub isolation: String,
    /// Why it can make no hand, if so.
    pub refusal: Option<String>,
    /// After how long without a word from a server it ends.
    pub orphan: Duration,
    /// The version that it says it speaks: [`VERSION`], but in rehearsals of a change of it.
    pub version: u32,
    /// Writes its figures, in the text form of Prometheus.
    pub figures: fn() -> String,
}

/// Why a host ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// It was told to.
    Told,
    /// No server spoke to it for too long.
    Orphaned,
    /// It was draining, and its last hand is gone.
    Drained,
    /// The server went away in order, and there was no hand.
    Unused,
}

impl Options {
    fn about(self, abilities: Abilities) -> About {
        About {
            version: self.version,
            pid: std::process::id(),
            isolation: self.isolation,
            refusal: self.refusal,
            orphan_ms: milliseconds(self.orphan),
            draining: false,
            abilities,
        }
    }
}

impl Default for Options {
    /// Ten minutes.
    fn default() -> Self {
        Self {
            isolation: String::new(),
            refusal: None,
            orphan: Duration::from_secs(600),
            version: VERSION,
            figures: String::new,
        }
    }
}

/// A host that listens.
#[derive(Debug)]
pub struct Host {
    lock: Lock,
    listener: UnixListener,
    /// Where listeners of ways out are asked for.
    outlets: UnixListener,
    shared: Arc<Shared>,
}

impl Host {
    /// Begins to listen where the lock is; whoever connects from now on is served.
    ///
    /// # Errors
    ///
    /// If the socket cannot be made.
    pub fn open(
        lock: Lock,
        provisioner: Arc<dyn Provisioner>,
        options: Options,
    ) -> io::Result<Self> {
        let (listener, outlets) = (lock.listen()?, lock.listen_for_outlets()?);
        let figures = options.figures;
        let about = options.about(provisioner.abilities());
        Ok(Self {
            lock,
            listener,
            outlets,
            shared: Arc::new(Shared::new(provisioner, figures, about)),
        })
    }

    /// Serves until it is told to stop or nobody wants it any more.
    ///
    /// Every hand ends then, its layer and its journal stay. The lock is given back, to be dropped
    /// when nothing of the hands is left.
    pub async fn serve(self, stop: CancellationToken) -> (Ended, Lock) {
        let Self {
            lock,
            listener,
            outlets,
            shared,
        } = self;
        let closing = CancellationToken::new();
        let router = routes::router(shared.clone());
        let served = axum::serve(OfThisUser(listener), router)
            .with_graceful_shutdown(closing.clone().cancelled_owned())
            .into_future();
        tokio::pin!(served);
        let ended = tokio::select! {
            // Neither returns before it is told to.
            _ = &mut served => Ended::Told,
            () = outlets::serve(outlets, shared.clone()) => Ended::Told,
            () = stop.cancelled() => Ended::Told,
            ended = unwanted(&shared) => ended,
        };
        for incarnation in live(&shared).await {
            end(&shared, incarnation).await;
        }
        closing.cancel();
        // Connections that nobody closes are cut off with the process.
        drop(timeout(FAREWELL, served).await);
        (ended, lock)
    }
}

/// Waits until nobody wants the host any more.
async fn unwanted(shared: &Arc<Shared>) -> Ended {
    let (mut spoken, mut silent) = (shared.spoken(), Duration::ZERO);
    loop {
        let (began, look) = (Instant::now(), LOOK.min(shared.orphan()));
        tokio::select! {
            () = shared.changed.notified() => {}
            () = sleep(look) => {}
        }
        // A look that took long is one in which this process was stopped, and heard nobody.
        silent += began.elapsed().min(2 * look);
        if spoken != shared.spoken() {
            (spoken, silent) = (shared.spoken(), Duration::ZERO);
        }
        if silent >= shared.orphan() {
            return Ended::Orphaned;
        }
        if shared.is_draining() && drain(shared).await {
            return Ended::Drained;
        }
        if shared.is_left() && live(shared).await.is_empty() {
            return Ended::Unused;
        }
    }
}

/// Ends hands without calls; tells whether none is left.
async fn drain(shared: &Arc<Shared>) -> bool {
    let mut left = 0;
    for incarnation in live(shared).await {
        if shared.calls(incarnation) == 0 {
            end(shared, incarnation).await;
        } else {
            left += 1;
        }
    }
    left == 0
}

/// Returns the hands that live.
async fn live(shared: &Arc<Shared>) -> Vec<outlast_protocol::id::IncarnationId> {
    let mut found = shared.provisioner.list().await;
    let mut live = Vec::new();
    for incarnation in found.drain(..) {
        if shared.provisioner.find(incarnation).await.is_some() {
            live.push(incarnation);
        }
    }
    live
}

async fn end(shared: &Arc<Shared>, incarnation: outlast_protocol::id::IncarnationId) {
    if let Err(error) = shared.provisioner.reap(incarnation, Keep::Layer).await {
        tracing::warn!(hand.id = %incarnation, "cannot end `{incarnation}`: {error}");
    }
}

/// Accepts connections of this user alone.
struct OfThisUser(UnixListener);

impl Listener for OfThisUser {
    type Io = UnixStream;
    type Addr = ();

    async fn accept(&mut self) -> (UnixStream, ()) {
        loop {
            match self.0.accept().await {
                Ok((stream, _)) => match of_this_user(&stream) {
                    Ok(()) => return (stream, ()),
                    Err(error) => tracing::warn!("a connection is refused: {error}"),
                },
                Err(error) => {
                    tracing::error!(%error, "cannot accept a connection: {error}");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}
