//! What was opened lately, so that a request does not wait for the store.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// How long what was read counts: rotation, archive and deletion reach running sessions that late.
const FRESH: Duration = Duration::from_secs(5);

/// Owners of secrets, and their revisions.
pub(crate) type Revisions = Vec<(String, u64)>;

/// What was made of secrets, by what was asked for.
#[derive(Debug)]
pub(crate) struct Shelf<K, T> {
    /// How long it is kept for the next one that asks.
    kept: Duration,
    all: Mutex<HashMap<Vec<K>, Read<T>>>,
}

/// What was made, when, and of secrets at which revisions.
#[derive(Clone, Debug)]
pub(crate) struct Read<T> {
    looked: Instant,
    of: Revisions,
    made: T,
}

impl<K: Clone + Eq + Hash, T: Clone> Shelf<K, T> {
    pub(crate) fn keeping(kept: Duration) -> Self {
        let all = Mutex::default();
        Self { kept, all }
    }

    pub(crate) fn get(&self, wanted: &[K]) -> Option<Read<T>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        // Values that nobody asks for any more are wiped.
        all.retain(|_, read| read.looked.elapsed() < self.kept);
        all.get(wanted).cloned()
    }

    pub(crate) fn put(&self, wanted: &[K], of: Revisions, made: T) {
        let looked = Instant::now();
        let read = Read { looked, of, made };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(wanted.to_vec(), read);
    }
}

impl<T: Clone> Read<T> {
    /// Returns what was made, if that was just now.
    pub(crate) fn fresh(&self) -> Option<T> {
        (self.looked.elapsed() < FRESH).then(|| self.made.clone())
    }

    /// Returns what was made, if it was of these.
    pub(crate) fn of(self, of: &Revisions) -> Option<T> {
        (self.of == *of).then_some(self.made)
    }
}
