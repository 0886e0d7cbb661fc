//! Receipts that answer no more, until the store knows it.
//!
//! A mark counts at once here. It is written a moment later, many in one transaction, because a
//! disk sync per answer would stand in the way of the next append.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use outlast_kernel::Kernel;
use tokio::{sync::watch, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::Api;

/// How long marks are gathered.
const GATHER: Duration = Duration::from_secs(1);

/// Marks that are written at once.
const BATCH: usize = 1_024;

/// Marks on their way to the store.
#[derive(Debug)]
pub(super) struct Marks {
    kernel: Kernel,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    inner: Mutex<Inner>,
    /// Changes with every batch that was written.
    written: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    gathered: HashSet<[u8; 32]>,
    /// On their way: the receipt that they concern must not be replaced now. Holds whether the
    /// mark was taken back meanwhile.
    leaving: HashMap<[u8; 32], bool>,
    /// Whether a task is there that writes them.
    writer: bool,
}

impl Marks {
    pub(super) fn new(api: &Api) -> Self {
        Self {
            kernel: api.kernel.clone(),
            tasks: api.tasks.clone(),
            shutdown: api.shutdown.clone(),
            inner: Mutex::default(),
            written: watch::Sender::new(()),
        }
    }

    /// Marks a receipt.
    pub(super) fn add(self: &Arc<Self>, fingerprint: [u8; 32]) {
        let mut inner = self.lock();
        inner.gathered.insert(fingerprint);
        if !inner.writer {
            inner.writer = true;
            self.tasks.spawn(self.clone().write());
        }
    }

    /// Takes a mark back, because a new receipt may come; tells whether there was one.
    ///
    /// Wait for [`Marks::settle`] before that receipt is written.
    pub(super) fn take(&self, fingerprint: [u8; 32]) -> bool {
        let mut inner = self.lock();
        let leaving = inner
            .leaving
            .get_mut(&fingerprint)
            .map(|taken| *taken = true);
        inner.gathered.remove(&fingerprint) || leaving.is_some()
    }

    /// Waits until no mark of this receipt is on its way.
    pub(super) async fn settle(&self, fingerprint: [u8; 32]) {
        let mut written = self.written.subscribe();
        while self.lock().leaving.contains_key(&fingerprint) {
            // The sender is part of this.
            if written.changed().await.is_err() {
                return;
            }
        }
    }

    /// Writes what is gathered until nothing is.
    async fn write(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = sleep(GATHER) => {}
                () = self.shutdown.cancelled() => {}
            }
            let batch = self.depart();
            if batch.is_empty() {
                return;
            }
            let resources = self.kernel.resources();
            let outcomes = join_all(batch.iter().map(|mark| resources.written_out(*mark))).await;
            let failed = batch
                .iter()
                .zip(&outcomes)
                .filter(|(_, outcome)| outcome.is_err());
            self.arrive(failed.map(|(mark, _)| *mark).collect());
        }
    }

    /// Takes a batch along; with an empty one the writer is over.
    fn depart(&self) -> Vec<[u8; 32]> {
        let mut inner = self.lock();
        let batch: Vec<_> = inner.gathered.iter().take(BATCH).copied().collect();
        for mark in &batch {
            inner.gathered.remove(mark);
            inner.leaving.insert(*mark, false);
        }
        inner.writer = !batch.is_empty();
        batch
    }

    /// Ends a batch; what failed is tried again, unless the process ends.
    fn arrive(&self, failed: Vec<[u8; 32]>) {
        let mut inner = self.lock();
        let leaving = std::mem::take(&mut inner.leaving);
        if !failed.is_empty() {
            tracing::warn!(
                "{} receipts could not be marked as written out",
                failed.len()
            );
        }
        if !self.shutdown.is_cancelled() {
            let wanted = |mark: &[u8; 32]| leaving.get(mark) == Some(&false);
            inner.gathered.extend(failed.into_iter().filter(wanted));
        }
        drop(inner);
        self.written.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
