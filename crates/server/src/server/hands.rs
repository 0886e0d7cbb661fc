//! Where the hands are: in this process, or in a host that outlives it.

use std::{io, path::Path, sync::Arc};

use outlast_hands::{
    Provisioner,
    host::{Found, Lock, Place, Remote, Starter},
    namespace::{self, Namespaces},
};
use outlast_kernel::HandLife;

use super::StartError;
use crate::config::Config;

/// The hands of a server.
#[derive(Debug)]
pub(super) enum Hands {
    /// In this process; they end with it.
    Here {
        driver: Arc<Namespaces>,
        /// Keeps a host from working on the same files.
        _lock: Lock,
    },
    /// In a host.
    Beside { remote: Remote, found: Found },
}

/// Makes the driver of sandboxes, in whatever process they are to live.
pub(crate) async fn driver(config: &Config, dir: &Path) -> io::Result<Namespaces> {
    let options = namespace::Options {
        layer_unused: config.hands.packages.unused(),
        ..namespace::Options::at(dir.join("hands"))
    };
    Namespaces::new(options).await
}

impl Hands {
    /// Finds a host or has one started; without a starter the hands are in this process, unless a
    /// host of an earlier server still has them.
    pub(super) async fn open(
        config: &Config,
        dir: &Path,
        starter: Option<Arc<dyn Starter>>,
    ) -> Result<Self, StartError> {
        let place = Place::usual(dir);
        if starter.is_some() || place.is_held().unwrap_or(false) {
            let (mut remote, found) = Remote::open(dir, starter).await?;
            remote.wait_for_servers(config.hands.orphan()).await;
            return Ok(Self::Beside { remote, found });
        }
        let lock = place.take().await?;
        let made = driver(config, dir).await;
        let driver = made.map_err(|error| StartError::Data {
            path: dir.join("hands"),
            error,
        })?;
        Ok(Self::Here {
            driver: Arc::new(driver),
            _lock: lock,
        })
    }

    /// Returns what makes them.
    pub(super) fn provisioner(&self) -> Arc<dyn Provisioner> {
        match self {
            Self::Here { driver, .. } => driver.clone(),
            Self::Beside { remote, .. } => Arc::new(remote.clone()),
        }
    }

    /// Tells what becomes of them when this process ends.
    pub(super) fn life(&self) -> HandLife {
        match self {
            Self::Here { .. } => HandLife::WithServer,
            Self::Beside { .. } => HandLife::OfTheirOwn,
        }
    }

    /// Tells what isolation they have, and whether any can be made.
    pub(super) fn verdict(&self) -> (String, bool) {
        match self {
            Self::Here { driver, .. } => {
                let verdict = driver.verdict();
                (verdict.to_string(), verdict.refusal.is_none())
            }
            Self::Beside { remote, .. } => {
                let about = remote.about();
                (about.isolation.clone(), about.refusal.is_none())
            }
        }
    }

    /// Tells where they live, in words.
    pub(super) fn place(&self) -> String {
        let (remote, found) = match self {
            Self::Here { .. } => return "in this process".to_owned(),
            Self::Beside { remote, found } => (remote, found),
        };
        let pid = remote.about().pid;
        match found {
            Found::Adopted => format!("process {pid}, found running"),
            Found::Started => format!("process {pid}, started"),
            Found::Beside => format!(
                "process {pid}, started beside one of another version, which ends with its calls"
            ),
        }
    }

    /// Lets a host know that this server is there, for ever.
    pub(super) async fn attend(&self) {
        match self {
            Self::Here { .. } => std::future::pending().await,
            Self::Beside { remote, .. } => remote.attend().await,
        }
    }

    /// Returns the figures that stand in another process, in the text form of Prometheus.
    pub(super) async fn figures(&self) -> String {
        match self {
            Self::Here { .. } => String::new(),
            Self::Beside { remote, .. } => remote.figures().await,
        }
    }

    /// Ends them where they cannot live on.
    pub(super) async fn close(&self) {
        match self {
            Self::Here { driver, .. } => driver.shutdown().await,
            Self::Beside { remote, .. } => remote.leave().await,
        }
    }
}
