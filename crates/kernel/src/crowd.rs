//! Whether threads wait for a free slot: while they do, nobody gets one out of turn.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts those who found no slot free, until a look at the store found nobody any more.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    came: AtomicU64,
    served: AtomicU64,
}

/// How many had come when the store was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen(u64);

impl Crowd {
    /// Notes that a thread wants a brain and there was no slot for it.
    pub(crate) fn came(&self) {
        self.came.fetch_add(1, Ordering::AcqRel);
    }

    /// Tells whether somebody may be waiting.
    pub(crate) fn waits(&self) -> bool {
        self.came.load(Ordering::Acquire) > self.served.load(Ordering::Acquire)
    }

    /// Says, before the store is looked at, how many have come.
    pub(crate) fn look(&self) -> Seen {
        Seen(self.came.load(Ordering::Acquire))
    }

    /// Notes that a look found a slot for everybody there was; who came since is not among them.
    pub(crate) fn served(&self, seen: Seen) {
        self.served.fetch_max(seen.0, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_during_a_look_is_not_forgotten() {
        let crowd = Crowd::default();
        assert!(!crowd.waits());
        crowd.came();
        let seen = crowd.look();
        crowd.came();
        crowd.served(seen);
        assert!(crowd.waits(), "the second one was not seen");
        crowd.served(crowd.look());
        assert!(!crowd.waits());
        crowd.served(seen);
        assert!(!crowd.waits(), "an old look changes nothing");
    }
}
