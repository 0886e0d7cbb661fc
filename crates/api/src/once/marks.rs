//! Receipts that answer no more, until the store knows it.
//!
//! A mark counts at once here. It is written a moment later, many in one transaction, because a
//! disk sync per answer would stand in the way of the next append. A floor says less: an attempt
//! came to an end that nobody knows, so its own receipt may be there and counts, older ones do not.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use outlast_kernel::Kernel;
use outlast_protocol::Micros;
use tokio::{sync::watch, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::Api;

/// How long marks are gathered.
const GATHER: Duration = Duration::from_secs(1);

/// Marks that are written at once.
const BATCH: usize = 1_024;

/// What is known of the receipts that were there before an attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Older {
    /// They stand as they are.
    Good,
    /// Those from this moment on stand.
    Since(Micros),
    /// None answers any more.
    Dead,
}

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
    gathered: BTreeSet<[u8; 32]>,
    /// On their way: the receipt that they concern must not be replaced now. Holds whether the
    /// mark was taken back meanwhile.
    leaving: BTreeMap<[u8; 32], bool>,
    /// Attempts whose end is not known; kept for as long as they can be retried.
    floors: HashMap<[u8; 32], Micros>,
    /// Answers that were written and may be marked soon, by the number of their note.
    soon: HashMap<[u8; 32], u64>,
    notes: u64,
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

    /// Notes that a receipt will be marked unless another attempt comes before.
    pub(super) fn soon(&self, fingerprint: [u8; 32]) -> u64 {
        let mut inner = self.lock();
        inner.notes += 1;
        let note = inner.notes;
        inner.soon.insert(fingerprint, note);
        note
    }

    /// Marks a receipt if it is still the one of that note.
    pub(super) fn ripen(self: &Arc<Self>, fingerprint: [u8; 32], note: u64) {
        let mut inner = self.lock();
        let still = inner.soon.get(&fingerprint) == Some(&note);
        if still {
            inner.soon.remove(&fingerprint);
        }
        drop(inner);
        if still {
            self.add(fingerprint);
        }
    }

    /// Takes a note back: its answer did not arrive.
    pub(super) fn lost(&self, fingerprint: [u8; 32], note: u64) {
        let mut inner = self.lock();
        if inner.soon.get(&fingerprint) == Some(&note) {
            inner.soon.remove(&fingerprint);
        }
    }

    /// Notes that receipts of this moment and later stand, and older ones do not.
    pub(super) fn floor(&self, fingerprint: [u8; 32], at: Micros) {
        self.lock().floors.insert(fingerprint, at);
    }

    /// Tells whether as many attempts are remembered as may be.
    pub(super) fn are_full(&self, most: usize) -> bool {
        let mut inner = self.lock();
        if inner.floors.len() < most {
            return false;
        }
        let since = self.kernel.ago(super::RETRIED);
        inner.floors.retain(|_, floor| *floor > since);
        inner.floors.len() >= most
    }

    /// Takes back what was noted, because a new receipt may come; returns it.
    ///
    /// Wait for [`Marks::settle`] before that receipt is written.
    pub(super) fn take(&self, fingerprint: [u8; 32]) -> Older {
        let mut inner = self.lock();
        let leaving = inner
            .leaving
            .get_mut(&fingerprint)
            .map(|taken| *taken = true);
        let floor = inner.floors.remove(&fingerprint);
        inner.soon.remove(&fingerprint);
        if inner.gathered.remove(&fingerprint) || leaving.is_some() {
            return Older::Dead;
        }
        floor.map_or(Older::Good, Older::Since)
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
                biased;
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
