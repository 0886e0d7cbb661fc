//! Time and randomness as interfaces: nothing in Outlast draws either by another way.

use std::fmt;

use crate::Micros;

/// Tells the time of day.
///
/// It may jump in both directions; a session's own times never go backwards, because the store
/// takes the later of the clock and the session's last record.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Returns the present moment.
    fn now(&self) -> Micros;
}

/// Fills buffers with random bytes: ids, salts, keys and jitter.
///
/// The production implementation is the operating system's generator; a seeded one makes a run
/// repeatable and must never serve a real server.
pub trait Entropy: fmt::Debug + Send + Sync {
    /// Overwrites the whole of `buffer`.
    fn fill(&self, buffer: &mut [u8]);
}
