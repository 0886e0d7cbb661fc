//! The place of one connection among those that a hand may have open.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metric_definitions as metrics;

/// The place of one connection; free again once nothing of it is open.
#[derive(Debug)]
pub(crate) struct Slot {
    _permit: OwnedSemaphorePermit,
}

impl Slot {
    /// Takes a place, if one is free.
    pub(crate) fn take(slots: &Arc<Semaphore>) -> Option<Arc<Self>> {
        let permit = slots.clone().try_acquire_owned().ok()?;
        ::metrics::gauge!(metrics::CONNECTIONS).increment(1);
        Some(Arc::new(Self { _permit: permit }))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        ::metrics::gauge!(metrics::CONNECTIONS).decrement(1);
    }
}
