//! What was opened lately, so that a request does not wait for the store.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// How long what was read counts, where nobody says that something changed: what another server changes
/// arrives that late.
const FRESH: Duration = Duration::from_secs(5);

/// Owners of secrets, and their revisions.
pub(crate) type Revisions = Vec<(String, u64)>;

/// What was made of secrets, by what was asked for.
#[derive(Debug)]
pub(crate) struct Shelf<K, T> {
    /// How long it is kept for the next one that asks.
    kept: Duration,
    /// Moves with each change that is told.
    version: AtomicU64,
    all: Mutex<HashMap<Vec<K>, Read<T>>>,
}

/// What was made, when, and of secrets at which revisions.
#[derive(Clone, Debug)]
pub(crate) struct Read<T> {
    looked: Instant,
    version: u64,
    of: Revisions,
    made: T,
}

impl<K: Clone + Eq + Hash, T: Clone> Shelf<K, T> {
    pub(crate) fn keeping(kept: Duration) -> Self {
        Self {
            kept,
            version: AtomicU64::default(),
            all: Mutex::default(),
        }
    }

    /// Has nothing count that was read before, nor what is just being read.
    pub(crate) fn outdate(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns what whoever is about to read says of what is read.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    pub(crate) fn get(&self, wanted: &[K]) -> Option<Read<T>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        // Values that nobody asks for any more are wiped.
        all.retain(|_, read| read.looked.elapsed() < self.kept);
        all.get(wanted).cloned()
    }

    pub(crate) fn put(&self, wanted: &[K], version: u64, of: Revisions, made: T) {
        let read = Read {
            looked: Instant::now(),
            version,
            of,
            made,
        };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(wanted.to_vec(), read);
    }
}

impl<T: Clone> Read<T> {
    /// Returns what was made, if that was just now and nothing was changed since.
    pub(crate) fn fresh(&self, version: u64) -> Option<T> {
        let counts = self.version == version && self.looked.elapsed() < FRESH;
        counts.then(|| self.made.clone())
    }

    /// Returns what was made, if it was of these.
    pub(crate) fn of(self, of: &Revisions) -> Option<T> {
        (self.of == *of).then_some(self.made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_counts_that_was_read_before_a_change_or_during_one() {
        let shelf: Shelf<u8, u8> = Shelf::keeping(Duration::from_secs(60));
        let of: Revisions = vec![("a".to_owned(), 1)];
        let fresh = || shelf.get(&[7]).and_then(|read| read.fresh(shelf.version()));
        let before = shelf.version();
        shelf.put(&[7], before, of.clone(), 1);
        assert_eq!(fresh(), Some(1));
        shelf.outdate();
        assert_eq!(fresh(), None);
        // Who was reading meanwhile puts it here late.
        shelf.put(&[7], before, of.clone(), 1);
        assert_eq!(fresh(), None);
        // It is still what it was made of.
        assert_eq!(shelf.get(&[7]).and_then(|read| read.of(&of)), Some(1));
    }
}
