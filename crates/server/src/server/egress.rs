//! The egress of a server: in this process, or in one of another user.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use outlast_egress::{
    Sweeper,
    apart::{Peer, Remote, Server},
    hand::{Audit, Forwarder, Options, Vaulted},
};
use outlast_kernel::{Kernel, Network, Sweep};
use outlast_model::{Upstream, upstream::Provider};
use outlast_protocol::seam::Entropy as _;
use outlast_reach::System;
use outlast_vault::{Custodian, Vault};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Backend, StartError, database::Database, vault};
use crate::{
    OsEntropy,
    config::{Config, Roles},
};

/// How long a start waits for the egress process: what needs no secret is served without it.
const PATIENCE: Duration = Duration::from_secs(3);

/// The egress of a server.
#[derive(Debug)]
pub(super) enum Egress {
    /// In this process, with all secrets.
    Here(Box<Inside>),
    /// In a process of another user.
    Apart { remote: Remote, peer: Peer },
}

/// What has all secrets.
#[derive(Debug)]
pub(super) struct Inside {
    vault: Vault,
    options: Options,
    upstream: Option<Upstream>,
}

/// What it is told of a server.
pub(super) struct Around<'a> {
    pub(super) config: &'a Config,
    pub(super) data_dir: &'a Path,
    pub(super) database: &'a Database,
    pub(super) address: std::net::SocketAddr,
    /// The model's key, if this process has it.
    pub(super) upstream: Option<Upstream>,
    /// The server's kernel, once it is made.
    pub(super) kernel: &'a Arc<OnceLock<Kernel>>,
}

impl Egress {
    /// Opens it as the configuration says.
    pub(super) async fn open(roles: Roles, around: Around<'_>) -> Result<Self, StartError> {
        let Around {
            config,
            data_dir,
            database,
            address,
            upstream,
            kernel,
        } = around;
        match roles {
            Roles::BesideEgress(peer) => {
                let known = Arc::clone(kernel);
                let server = Server {
                    name: name(),
                    listens: address,
                    alone: !database.is_shared(),
                    records: database.store().into(),
                    noted: Arc::new(move |entry| {
                        if let Some(kernel) = known.get() {
                            kernel.audit_soon(entry);
                        }
                    }),
                };
                let remote = Remote::new(peer.clone(), server);
                Ok(Self::Apart { remote, peer })
            }
            Roles::All => {
                let options = config.egress.options(address)?;
                let vault = vault::open(config, database, data_dir, &options).await;
                Ok(Self::Here(Box::new(Inside {
                    vault,
                    options,
                    upstream,
                })))
            }
            Roles::Egress(_) => Err(StartError::NoServer),
        }
    }

    /// Says which models answer.
    pub(super) fn backend(&self, config: &Config) -> Backend {
        match self {
            Self::Here(inside) => {
                let url = inside.upstream.as_ref().map(Upstream::url);
                Backend::of(&config.upstream, url)
            }
            Self::Apart { peer, .. } => Backend::Apart {
                socket: peer.socket.clone(),
            },
        }
    }

    /// Returns who has the keys of models.
    pub(super) fn provider(&self) -> Option<Arc<dyn Provider>> {
        match self {
            Self::Here(inside) => {
                let upstream = inside.upstream.clone()?;
                Some(Arc::new(upstream))
            }
            Self::Apart { remote, .. } => Some(Arc::new(remote.clone())),
        }
    }

    /// Returns who has the secrets.
    pub(super) fn custodian(&self) -> Arc<dyn Custodian> {
        match self {
            Self::Here(inside) => Arc::new(inside.vault.clone()),
            Self::Apart { remote, .. } => Arc::new(remote.clone()),
        }
    }

    /// Returns who looks for secrets in what comes out of sandboxes.
    pub(super) fn sweep(&self) -> Arc<dyn Sweep> {
        match self {
            Self::Here(inside) => Arc::new(Sweeper::new(inside.vault.clone())),
            Self::Apart { remote, .. } => Arc::new(remote.clone()),
        }
    }

    /// Returns who serves the ways out of sandboxes; the kernel is told of what was decided, once it is
    /// made.
    pub(super) fn network(&self, kernel: &Arc<OnceLock<Kernel>>) -> Arc<dyn Network> {
        match self {
            Self::Here(inside) => Arc::new(Forwarder::new(
                inside.options.clone(),
                Arc::new(Vaulted::new(inside.vault.clone())),
                Arc::new(System),
                Audit::of(kernel.clone()),
            )),
            Self::Apart { remote, .. } => Arc::new(remote.clone()),
        }
    }

    /// Begins what keeps it so, in a task that the token ends, and waits until it is there, for a while.
    pub(super) async fn begin(&self) -> (TaskTracker, CancellationToken) {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let until = stop.clone();
        match self {
            Self::Here(inside) => {
                let vault = inside.vault.clone();
                tasks.spawn(async move { vault.keep(until).await });
            }
            Self::Apart { remote, .. } => {
                let attending = remote.clone();
                tasks.spawn(async move { attending.attend(until).await });
                remote.wait(PATIENCE).await;
            }
        }
        (tasks, stop)
    }

    /// Waits until refreshes that are on their way are written down.
    pub(super) async fn close(&self) {
        match self {
            Self::Here(inside) => inside.vault.close().await,
            // They go on there, over the links of the next server.
            Self::Apart { .. } => {}
        }
    }
}

/// Draws a name that no server had before.
fn name() -> String {
    let mut bytes = [0; 16];
    OsEntropy.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
