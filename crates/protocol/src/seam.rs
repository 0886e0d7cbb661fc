//! Time and randomness as interfaces: nothing in Outlast draws either by another way.

use std::{fmt, time::Duration};

use crate::Micros;

/// Tells the time of day.
///
/// It may jump in both directions; a session's own times never go backwards, because the store
/// takes the later of the clock and the session's last record.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Returns the present moment.
    fn now(&self) -> Micros;

    /// Returns the time since some moment in the past.
    ///
    /// Unlike the time of day it never jumps, and it goes on while the machine sleeps: what it says
    /// of the past is what others lived through meanwhile.
    fn uptime(&self) -> Duration;
}

/// Fills buffers with random bytes: ids, salts, keys and jitter.
///
/// The production implementation is the operating system's generator; a seeded one makes a run
/// repeatable and must never serve a real server.
pub trait Entropy: fmt::Debug + Send + Sync {
    /// Overwrites the whole of `buffer`.
    fn fill(&self, buffer: &mut [u8]);
}
