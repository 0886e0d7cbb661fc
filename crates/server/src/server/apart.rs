//! The egress process: what has every secret, and neither a store nor a port.

use std::{path::Path, sync::Arc};

use outlast_egress::apart::{Options, Peer, Sockets, serve};
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
    sockets: Sockets,
    options: Options,
}

impl Apart {
    /// Opens what it needs; its data directory is its own, and has a master key of its own where none is
    /// set.
    ///
    /// # Errors
    ///
    /// If the configuration or the directory is not fit, or the sockets cannot be made.
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
        let socket = |error| StartError::Socket {
            path: peer.socket.clone(),
            error,
        };
        let sockets = Sockets::bind(peer.clone()).map_err(socket)?;
        Ok(Self {
            peer,
            sockets,
            options,
        })
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
    pub(crate) async fn serve(self, stop: CancellationToken) {
        serve(self.sockets, self.options, stop).await;
    }
}
