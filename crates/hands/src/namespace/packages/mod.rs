//! Packages as a layer of their own: installed once in a sandbox of their own, then shown read-only
//! below the writable layer of every hand that wants the same.
//!
//! A layer is a folder of `layers` beside the folders of hands, named by all that it depends on: the
//! root file system, the ids, the packages. It is made aside, synced and renamed, so it is whole or
//! not there. What a crash leaves is found by its free lock.

mod apt;
mod cargo;
mod install;
mod keep;
mod key;
mod npm;
mod outlets;
mod steps;

use std::{
    collections::HashMap,
    io,
    net::TcpListener,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use outlast_protocol::id::IncarnationId;
use outlast_sandbox::{Base, Image, Launcher};
use tokio::{
    sync::OnceCell,
    task::spawn_blocking,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use keep::Shelf;
pub(super) use keep::Used;
use outlets::Outlets;

use super::maker::Failed;
use crate::{Limits, packages::Wanted};

/// How often layers that nobody used for long are looked for.
const TIDY: Duration = Duration::from_secs(24 * 3600);

/// The layers of packages of a node.
#[derive(Debug)]
pub(super) struct Store {
    shelf: Shelf,
    launcher: Arc<Launcher>,
    program: Arc<Image>,
    /// What is being installed: whoever wants the same waits for the same.
    attempts: Mutex<HashMap<String, Weak<Attempt>>>,
    stop: CancellationToken,
    outlets: Outlets,
}

/// One installation, and what it came to.
type Attempt = OnceCell<Result<(), Failed>>;

/// What a layer is made for.
#[derive(Debug)]
pub(super) struct Order<'a> {
    /// Whose hand waits for it.
    pub(super) incarnation: IncarnationId,
    /// What a sandbox stands on.
    pub(super) base: &'a Base,
    /// Its digest if it is an image.
    pub(super) digest: Option<String>,
    /// Its name if it is an image.
    pub(super) image: Option<&'a str>,
    /// The bounds of the installation.
    pub(super) limits: Limits,
    /// What is to be installed.
    pub(super) wanted: &'a Wanted,
}

impl Store {
    /// Makes a store in a folder, which need not exist.
    pub(super) fn new(dir: PathBuf, launcher: Arc<Launcher>, program: Arc<Image>) -> Self {
        Self {
            shelf: Shelf::new(dir),
            launcher,
            program,
            attempts: Mutex::default(),
            stop: CancellationToken::new(),
            outlets: Outlets::default(),
        }
    }

    /// Returns the listener that leads out of the installation that a hand waits for, if it began it.
    pub(super) fn outlet(&self, incarnation: IncarnationId) -> io::Result<Option<TcpListener>> {
        self.outlets.of(incarnation)
    }

    /// Ends installations that run.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Returns the layer with these packages, installed now if there is none.
    ///
    /// Any number may ask at once; the packages are installed once, and a failure is everybody's who
    /// waited for it. The next who asks tries again.
    pub(super) async fn ensure(&self, order: Order<'_>) -> Result<Used, Failed> {
        let key = self.key(&order).await?;
        loop {
            if let Some(used) = self.take(&key).await? {
                return Ok(used);
            }
            let attempt = self.attempt(&key);
            let made = attempt.get_or_init(|| self.install(&key, &order)).await;
            made.clone()?;
        }
    }

    async fn key(&self, order: &Order<'_>) -> Result<String, Failed> {
        let (digest, ids) = (order.digest.clone(), *self.launcher.ids());
        let packages = order.wanted.packages.clone();
        let layering = self.launcher.verdict().layering;
        let made = spawn_blocking(move || key::of(digest.as_deref(), &ids, layering, &packages));
        made.await
            .map_err(|error| self.failed("name the layer", &error))
    }

    async fn take(&self, key: &str) -> Result<Option<Used>, Failed> {
        let (shelf, key) = (self.shelf.clone(), key.to_owned());
        let taken = spawn_blocking(move || shelf.take(&key)).await;
        let taken = taken.map_err(io::Error::other).flatten();
        taken.map_err(|error| self.failed("open the layer of packages", &error))
    }

    fn failed(&self, step: &str, error: &impl ToString) -> Failed {
        Failed {
            step: step.to_owned(),
            reason: error.to_string(),
            mend: None,
        }
    }

    /// Returns the installation that runs, or a new one.
    fn attempt(&self, key: &str) -> Arc<Attempt> {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        attempts.retain(|_, attempt| attempt.strong_count() > 0);
        if let Some(attempt) = attempts.get(key).and_then(Weak::upgrade) {
            return attempt;
        }
        let attempt = Arc::new(Attempt::new());
        attempts.insert(key.to_owned(), Arc::downgrade(&attempt));
        attempt
    }

    /// Installs, and counts it.
    async fn install(&self, key: &str, order: &Order<'_>) -> Result<(), Failed> {
        // Between the first look and this moment another one may have ended.
        if self.take(key).await?.is_some() {
            return Ok(());
        }
        let began = Instant::now();
        let installer = install::Installer {
            shelf: &self.shelf,
            launcher: &self.launcher,
            program: &self.program,
            stop: &self.stop,
            outlets: &self.outlets,
        };
        let done = installer.run(key, order).await;
        let took = began.elapsed();
        let outcome = match &done {
            Ok(()) => "done",
            Err(_) => "failed",
        };
        metrics::counter!("outlast_hands_package_installs_total", "outcome" => outcome)
            .increment(1);
        metrics::histogram!("outlast_hands_package_install_seconds").record(took.as_secs_f64());
        match &done {
            Ok(()) => tracing::info!(layer = key, ?took, "packages are installed"),
            Err(Failed { step, reason, .. }) => {
                tracing::warn!(layer = key, ?took, "cannot {step}: {reason}");
            }
        }
        done
    }

    /// Removes what crashes left, then day by day layers that nobody used for so long.
    pub(super) async fn tidy(self: Arc<Self>, unused: Duration) {
        loop {
            let (shelf, launcher) = (self.shelf.clone(), Arc::clone(&self.launcher));
            let done = spawn_blocking(move || {
                shelf.sweep(|name| launcher.remove_leftover(name))?;
                shelf.forget(unused)
            });
            match done.await.map_err(io::Error::other).flatten() {
                Ok(0) => {}
                Ok(gone) => tracing::info!(gone, "layers of packages that nobody used are gone"),
                Err(error) => tracing::warn!("cannot tidy the layers of packages: {error}"),
            }
            tokio::select! {
                () = sleep(TIDY) => {}
                () = self.stop.cancelled() => return,
            }
        }
    }
}
