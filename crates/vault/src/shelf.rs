//! What was opened lately, so that a request does not wait for the store.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// How long what was read counts: rotation, archive and deletion reach running sessions that late.
const FRESH: Duration = Duration::from_secs(5);

/// How long it is kept for the next one that asks.
const KEPT: Duration = Duration::from_secs(60);

/// Owners of secrets, and their revisions.
pub(crate) type Revisions = Vec<(String, u64)>;

/// What was read, by what was asked for.
#[derive(Debug)]
pub(crate) struct Shelf<K, T>(Mutex<HashMap<Vec<K>, Read<T>>>);

/// What was read, when, and of secrets at which revisions.
#[derive(Debug)]
pub(crate) struct Read<T> {
    looked: Instant,
    of: Revisions,
    items: Arc<[T]>,
}

impl<K, T> Default for Shelf<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, T> Shelf<K, T> {
    pub(crate) fn get(&self, wanted: &[K]) -> Option<Read<T>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Values that nobody asks for any more are wiped.
        all.retain(|_, read| read.looked.elapsed() < KEPT);
        all.get(wanted).cloned()
    }

    pub(crate) fn put(&self, wanted: &[K], of: Revisions, items: Arc<[T]>) {
        let looked = Instant::now();
        let read = Read { looked, of, items };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(wanted.to_vec(), read);
    }
}

impl<T> Clone for Read<T> {
    fn clone(&self) -> Self {
        Self {
            looked: self.looked,
            of: self.of.clone(),
            items: self.items.clone(),
        }
    }
}

impl<T> Read<T> {
    /// Returns what was read, if that was just now.
    pub(crate) fn fresh(&self) -> Option<Arc<[T]>> {
        (self.looked.elapsed() < FRESH).then(|| self.items.clone())
    }

    /// Returns what was read, if it was of these.
    pub(crate) fn of(self, of: &Revisions) -> Option<Arc<[T]>> {
        (self.of == *of).then_some(self.items)
    }
}
