//! The server: every room wired together, from binding the port to letting go of the data.

mod address;
mod connections;
mod database;
mod error;
mod hands;
mod key;
mod late;
mod parts;
mod start;

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
pub use error::StartError;
pub use key::Key;
pub(crate) use key::read as read_key;
pub use parts::{Backend, Facts};
pub(crate) use start::open_alone;

pub(crate) use hands::driver;

use connections::Phases;
pub(crate) use database::Database;
use hands::Hands;

/// How often a closing server looks whether its turns are handed back.
const LOOK: Duration = Duration::from_millis(10);

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
    /// Ends streams, and `/readyz` with them.
    streams: CancellationToken,
    /// Connections and what accepts them.
    connections: TaskTracker,
    /// What requests left to be done.
    requests: TaskTracker,
    /// The loop that takes leases.
    worker: TaskTracker,
    stop_worker: CancellationToken,
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
    /// First it accepts nothing new, ends streams, lets requests finish and asks brains to hand
    /// back their turns; what still runs at the deadline is cut off, and the next start goes on
    /// with it. Data is safe either way.
    pub async fn close(self) -> bool {
        let deadline = Instant::now() + self.deadline;
        tracing::info!("closing: no new connections, streams end, turns are handed back");
        self.streams.cancel();
        self.phases.stop.cancel();
        self.connections.close();
        let drained = timeout_at(deadline, self.connections.wait());
        let (handed, drained) = tokio::join!(self.kernel.close(self.deadline), drained);
        let idle = timeout_at(deadline, self.idle()).await;
        let good = handed && drained.is_ok() && idle.is_ok();
        if !good {
            tracing::warn!(
                turns = self.kernel.turns(),
                "the deadline is over: cutting off the rest"
            );
        }
        self.phases.abort.cancel();
        self.connections.wait().await;
        self.requests.close();
        // Bounded by the store: closing it fails what still waits there.
        let left = timeout_at(deadline.max(Instant::now() + LOOK), self.requests.wait()).await;
        self.stop_worker.cancel();
        self.worker.close();
        self.worker.wait().await;
        self.hands.close().await;
        self.database.close().await;
        address::forget(&self.data_dir, self.address);
        tracing::info!("closed");
        good && left.is_ok()
    }

    /// Waits until no turn runs.
    async fn idle(&self) {
        while self.kernel.turns() > 0 {
            sleep(LOOK).await;
        }
    }
}
