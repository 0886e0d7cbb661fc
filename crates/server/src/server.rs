//! The server: every room wired together, from binding the port to letting go of the data.

mod address;
mod apart;
mod connections;
mod database;
mod egress;
mod error;
mod hands;
mod key;
mod late;
mod parts;
mod retention;
mod socket;
mod start;
mod vault;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use outlast_kernel::Kernel;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use address::{told, url};
pub(crate) use apart::Apart;
pub use error::StartError;
pub use key::Key;
pub(crate) use key::{LOCAL, SET, read as read_key};
pub use parts::{Backend, Facts};
pub(crate) use start::open_alone;

pub(crate) use hands::driver;

use connections::Phases;
pub(crate) use database::Database;
use egress::Egress;
use hands::Hands;

/// How often a closing server looks whether its turns are handed back.
const LOOK: Duration = Duration::from_millis(10);

/// What clients are given at least to take their last answers.
const PARTING: Duration = Duration::from_secs(2);

/// A running server.
///
/// Dropping it ends nothing in good order; [`Server::close`] does.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    facts: Facts,
    data_dir: PathBuf,
    deadline: Duration,
    kernel: Kernel,
    database: Database,
    hands: Arc<Hands>,
    phases: Phases,
    /// Makes `/readyz` fail.
    leaving: CancellationToken,
    /// Ends streams.
    streams: CancellationToken,
    /// Connections and what accepts them.
    connections: TaskTracker,
    /// What requests left to be done.
    requests: TaskTracker,
    /// The loop that takes leases.
    worker: TaskTracker,
    stop_worker: CancellationToken,
    egress: Egress,
    failed: CancellationToken,
}

impl Server {
    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns where a client on this machine finds it.
    pub fn url(&self) -> String {
        address::url(self.address)
    }

    /// Returns what an operator should know about this start.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns where everything is kept.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Returns the door to its sessions.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns how many of its tasks run: connections, requests' leftovers and the loop.
    pub fn tasks(&self) -> usize {
        self.connections.len() + self.requests.len() + self.worker.len()
    }

    /// Waits until a part of the server dies that it cannot do without.
    pub async fn failure(&self) {
        self.failed.cancelled().await;
    }

    /// Stops in two phases, and tells whether everything ended by itself in time.
    ///
    /// First turns are handed back, each at its next event: none is begun, and clients are served all
    /// the while. Then nothing new is accepted, streams end where they stand, and requests finish. What
    /// still runs at the deadline is cut off, and the next start goes on with it. Data is safe either way.
    pub async fn close(self) -> bool {
        let deadline = Instant::now() + self.deadline;
        tracing::info!("closing: turns are handed back");
        self.leaving.cancel();
        self.kernel.hand_back();
        let handed = timeout_at(deadline, self.idle()).await.is_ok();
        if !handed {
            let turns = self.kernel.turns();
            tracing::warn!(turns, "the deadline is over: cutting off {turns} turns");
        }
        // Whoever waited so long for turns still ends its answers as it should.
        let deadline = deadline.max(Instant::now() + PARTING);
        let drained = self.part(deadline).await;
        let closed = self.kernel.close(deadline - Instant::now()).await;
        // Bounded by the store: closing it fails what still waits there.
        self.requests.close();
        let left = timeout_at(deadline.max(Instant::now() + LOOK), self.requests.wait()).await;
        self.stop_worker.cancel();
        self.worker.close();
        self.worker.wait().await;
        self.egress.close().await;
        self.kernel.end().await;
        self.hands.close().await;
        self.database.close().await;
        address::forget(&self.data_dir, self.address);
        tracing::info!("closed");
        handed && drained && closed && left.is_ok()
    }

    /// Parts with clients: streams end, requests finish.
    async fn part(&self, deadline: Instant) -> bool {
        tracing::info!("closing: no new connections, streams end");
        self.streams.cancel();
        self.phases.stop.cancel();
        self.connections.close();
        let drained = timeout_at(deadline, self.connections.wait()).await.is_ok();
        if !drained {
            tracing::warn!("the deadline is over: cutting off requests");
        }
        self.phases.abort.cancel();
        self.connections.wait().await;
        drained
    }

    /// Waits until no turn runs.
    async fn idle(&self) {
        while self.kernel.turns() > 0 {
            sleep(LOOK).await;
        }
    }
}
