//! The egress process: what has every secret, and neither a store nor a port.

use std::{path::Path, sync::Arc};

use outlast_egress::apart::{Options, Peer, serve};
use outlast_model::{Upstream, upstream::Provider};
use outlast_vault::keyring::Sources;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio_util::sync::CancellationToken;

use super::{Backend, StartError, start::make, vault::WAIT};
use crate::{OsEntropy, SystemClock, config::Config};

/// An egress process that is about to serve.
#[derive(Debug)]
pub(crate) struct Apart {
    peer: Peer,
    options: Options,
}

impl Apart {
    /// Opens what it needs; its data directory is its own, and has a master key of its own where none is
    /// set.
    ///
    /// # Errors
    ///
    /// If the configuration or the directory is not fit.
    pub(crate) async fn open(
        config: &Config,
        data_dir: &Path,
        peer: Peer,
    ) -> Result<Self, StartError> {
        config.check()?;
        // No core of it is left anywhere, and no other process of its user looks into it.
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!(%error, "a crash may leave secrets in a core: {error}");
        }
        make(data_dir)?;
        let entropy = Arc::new(OsEntropy);
        let ring = Sources::open(config.vault.source(data_dir), entropy.clone()).await;
        let upstream = config.upstream.options().map(Upstream::new).transpose()?;
        let backend = Backend::of(&config.upstream, upstream.as_ref().map(Upstream::url));
        let options = Options {
            hands: config.egress.options_of_any()?,
            ring: Arc::new(ring),
            provider: upstream.map(|upstream| Arc::new(upstream) as Arc<dyn Provider>),
            models: backend.to_string(),
            connect: WAIT,
            clock: Arc::new(SystemClock::new()),
            entropy,
        };
        Ok(Self { peer, options })
    }

    /// Returns where it is found, and by whom.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns which models answer, in words.
    pub(crate) fn models(&self) -> &str {
        &self.options.models
    }

    /// Serves until it is told to stop.
    ///
    /// # Errors
    ///
    /// If its sockets cannot be made.
    pub(crate) async fn serve(self, stop: CancellationToken) -> Result<(), StartError> {
        let socket = self.peer.socket.clone();
        let served = serve(self.peer, self.options, stop).await;
        served.map_err(|error| StartError::Socket {
            path: socket,
            error,
        })
    }
}
