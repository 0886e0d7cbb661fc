//! Which epochs a hand serves.

use std::collections::HashMap;

use outlast_protocol::id::IncarnationId;

use crate::{CallError, Fence};

/// The newest epoch of each thread that a hand heard of.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    newest: HashMap<u32, u64>,
}

impl Fences {
    /// Refuses older epochs from now on.
    pub(crate) fn raise(&mut self, fence: Fence) {
        let newest = self.newest.entry(fence.thread).or_default();
        *newest = fence.epoch.max(*newest);
    }

    /// Raises the fence, or refuses an old one.
    pub(crate) fn admit(&mut self, hand: IncarnationId, fence: Fence) -> Result<(), CallError> {
        self.raise(fence);
        match self.newest.get(&fence.thread).copied() {
            Some(newest) if newest > fence.epoch => Err(CallError::Stale {
                incarnation: hand,
                thread: fence.thread,
                newest,
            }),
            Some(_) | None => Ok(()),
        }
    }
}
