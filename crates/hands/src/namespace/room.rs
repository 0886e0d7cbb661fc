//! Sandboxes on a host whose disk is full.
//!
//! The disk of a sandbox is a sparse image. What is written in it while the host has no room stays in
//! memory for a while, is lost when the kernel comes to store it, and whoever wrote it hears nothing.
//! So it is looked whether the host's disk was nearly full while a call ran. If it was, the call ends
//! only when all is stored; what cannot be is told, and the sandbox ends, so that the next one begins
//! with what was stored and was checked.

use std::{io, mem, sync::Weak, time::Duration};

use tokio::{sync::watch, task::spawn_blocking, time::sleep};

use super::NamespaceHand;

/// How often is looked.
const LOOK: Duration = Duration::from_secs(1);

/// What is said.
pub(super) const UNSTORED: &str = "[the host's disk is full: not everything that was written in this \
    sandbox could be stored, and it has ended; the next call gets a new sandbox with the files that \
    were stored, check them before going on]";

/// Looks until the sandbox has ended.
pub(super) async fn watch(hand: Weak<NamespaceHand>, mut ended: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = sleep(LOOK) => {}
            _ = ended.wait_for(|ended| *ended) => return,
        }
        match hand.upgrade() {
            Some(hand) => hand.look(),
            None => return,
        }
    }
}

impl NamespaceHand {
    /// Notes whether the host's disk is nearly full.
    fn look(&self) {
        if self.layer().is_some_and(|layer| layer.is_cramped()) {
            self.state().cramped = true;
        }
    }

    /// Tells whether something that was written is lost, where it could be.
    pub(super) async fn has_unstored(&self) -> bool {
        self.look();
        if !mem::take(&mut self.state().cramped) {
            return false;
        }
        let Some(layer) = self.layer() else {
            return false;
        };
        let stored = spawn_blocking(move || layer.store()).await;
        match stored.map_err(io::Error::other).flatten() {
            Ok(()) => false,
            Err(error) => {
                tracing::error!(%error, "what a sandbox wrote could not be stored: {error}");
                true
            }
        }
    }
}
