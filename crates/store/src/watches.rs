//! The tails that somebody watches.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use outlast_protocol::id::SessionId;
use tokio::sync::watch;

use crate::GONE;

/// Entries below which nobody looks for abandoned ones.
const FEW: usize = 64;

/// One channel per session that has a subscriber.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    tails: HashMap<SessionId, watch::Sender<u64>>,
    /// When so many are there, abandoned ones are looked for.
    sweep_at: usize,
}

impl Watches {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes; the value is not the tail before [`Watches::publish`] was told it once.
    pub(crate) fn subscribe(&self, session: SessionId) -> watch::Receiver<u64> {
        let mut inner = self.lock();
        if inner.tails.len() >= inner.sweep_at.max(FEW) {
            inner.tails.retain(|_, tail| tail.receiver_count() > 0);
            inner.tails.shrink_to_fit();
            inner.sweep_at = inner.tails.len() * 2;
        }
        inner
            .tails
            .entry(session)
            .or_insert_with(|| watch::channel(0).0)
            .subscribe()
    }

    /// Tells a tail; one that is behind what was told before changes nothing.
    pub(crate) fn publish(&self, session: SessionId, tail: u64) {
        let mut inner = self.lock();
        let Some(told) = inner.tails.get(&session) else {
            return;
        };
        told.send_if_modified(|known| {
            let newer = tail > *known;
            *known = tail.max(*known);
            newer
        });
        if tail == GONE || told.receiver_count() == 0 {
            inner.tails.remove(&session);
        }
    }

    /// Returns the sessions that are watched, and forgets those that are not any more.
    pub(crate) fn watched(&self) -> Vec<SessionId> {
        let mut inner = self.lock();
        inner.tails.retain(|_, tail| tail.receiver_count() > 0);
        inner.tails.keys().copied().collect()
    }

    /// Counts the sessions that are watched, or were a moment ago.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().tails.len()
    }
}

#[cfg(test)]
mod tests {
    use outlast_protocol::Micros;
    use outlast_testkit::random::Constant;

    use super::*;

    fn session(number: u8) -> SessionId {
        SessionId::mint(Micros(i64::from(number) * 1_000), &Constant(number))
    }

    #[test]
    fn tails_only_rise_and_end_as_gone() {
        let watches = Watches::default();
        let mut tail = watches.subscribe(session(1));
        watches.publish(session(1), 5);
        watches.publish(session(1), 3);
        assert_eq!(*tail.borrow_and_update(), 5);
        watches.publish(session(1), GONE);
        assert_eq!(*tail.borrow_and_update(), GONE);
        assert_eq!(watches.len(), 0);
    }

    #[test]
    fn what_nobody_watches_costs_nothing() {
        let watches = Watches::default();
        for number in 0..=255 {
            drop(watches.subscribe(session(number)));
        }
        assert!(watches.len() <= FEW, "{}", watches.len());
        watches.publish(session(1), 1);
    }
}
