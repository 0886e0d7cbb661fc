//! Unlocks the vault, and keeps it so: looks for master keys that are missed, and goes on with what a
//! process left half-way that brought records under another one.

use std::{sync::PoisonError, time::Duration};

use outlast_store::SealedSecret;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{Vault, derive::Key, vault::Inner};

/// Whose secret the root is.
pub(crate) const ROOT: &str = "root";

/// How long between two looks while something is wrong.
const TROUBLED: Duration = Duration::from_secs(15);

/// The least time between two looks, however often a key is missed.
const LEAST: Duration = Duration::from_secs(2);

/// How long between two looks while records may still come under an old key.
pub(crate) const TURNING: Duration = Duration::from_secs(600);

impl Vault {
    /// Reads the root, or makes it where nothing is sealed yet; with it the first master key.
    ///
    /// What stands against it is [told](Self::trouble), and logged when it is new.
    pub async fn unlock(&self) {
        let found = self.0.root().await;
        let mut trouble = self.0.trouble();
        match (&found, &*trouble) {
            (Err(reason), Some(known)) if reason == known => {}
            (Err(reason), _) => tracing::error!("no secret can be used: {reason}"),
            (Ok(()), _) => {}
        }
        *trouble = found.err();
    }

    /// Watches until it is told to stop: what is wrong is tried again, and old keys retire once nothing
    /// is under them.
    pub async fn keep(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.look().await;
            let pause = match (&*self.0.trouble(), self.0.many()) {
                (Some(_), _) => TROUBLED,
                (None, true) => TURNING,
                (None, false) => Duration::MAX,
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.0.missed.notified() => {
                    sleep(LEAST).await;
                    self.0.renew().await;
                }
                () = sleep(pause) => if pause == TROUBLED { self.0.renew().await },
            }
        }
    }

    /// Looks once.
    async fn look(&self) {
        if self.trouble().is_some() {
            self.unlock().await;
        }
        if self.trouble().is_some() || !self.0.many() {
            return;
        }
        match self.bring_all().await {
            Ok(count) if count.brought + count.left == 0 => self.0.retire().await,
            Ok(_) => {}
            Err(reason) => {
                tracing::warn!("records could not be brought under the master key: {reason}");
            }
        }
    }
}

impl Inner {
    /// Tells whether more than one master key is known.
    fn many(&self) -> bool {
        self.ring.names().is_ok_and(|names| names.len() > 1)
    }

    /// Looks for master keys again; that it fails is told by whoever needs one.
    async fn renew(&self) {
        if let Err(reason) = self.ring.renew().await {
            tracing::debug!("no other master keys: {reason}");
        }
    }

    /// Has old keys forgotten, where they are not the operator's and nobody else uses the store. Whoever
    /// is not believed could say that nothing is under a key, so the last copy of it stays then.
    ///
    /// What was being sealed when this process turned may not be written yet; what an earlier process
    /// was sealing is written, or never will be.
    async fn retire(&self) {
        let turned = *self
            .turned_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !self.alone || self.wary || turned.is_some_and(|at| at.elapsed() < TURNING) {
            return;
        }
        if let Err(reason) = self.ring.retire().await {
            tracing::warn!("an old master key is still there: {reason}");
        }
    }

    /// Reads the root or makes it.
    async fn root(&self) -> Result<(), String> {
        let read = |error: outlast_store::ReadError| error.to_string();
        if let Some(root) = self.store.secret(ROOT).await.map_err(read)? {
            return self.take_root(&root).map_err(|error| error.to_string());
        }
        let others = self.store.secrets(None, 1).await.map_err(read)?;
        if let Some(other) = others.first() {
            // Sealed by whom? A new root would be another one than the keys of hands follow from.
            self.open(other).map_err(|error| error.to_string())?;
        }
        self.ring.found().await.map_err(|error| error.to_string())?;
        let root = self.new_root().map_err(|error| error.to_string())?;
        let kept = self.store.replace_secret(root.clone()).await;
        let root = match kept.map_err(|error| error.to_string())? {
            true => root,
            // Another process was faster.
            false => {
                let found = self.store.secret(ROOT).await.map_err(read)?;
                found.ok_or("the root was there and is gone")?
            }
        };
        self.take_root(&root).map_err(|error| error.to_string())
    }

    fn new_root(&self) -> Result<SealedSecret, crate::Sealing> {
        let mut root = Key::default();
        self.entropy.fill(&mut root[..]);
        self.seal(ROOT, ROOT, 1, &root[..])
    }
}
