//! Which incarnations this process has.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use outlast_protocol::id::IncarnationId;

use super::NamespaceHand;

/// One incarnation; locked while it is made or ended.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) hand: Option<Arc<NamespaceHand>>,
}

/// A slot that tasks share.
pub(super) type Shared = Arc<tokio::sync::Mutex<Slot>>;

/// All slots.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Mutex<HashMap<IncarnationId, Shared>>,
}

impl Slots {
    /// Returns the slot of an incarnation, and makes it.
    pub(super) fn slot(&self, incarnation: IncarnationId) -> Shared {
        Arc::clone(self.lock().entry(incarnation).or_default())
    }

    /// Returns the hand of an incarnation, dead or alive; waits while it is being made.
    pub(super) async fn hand(&self, incarnation: IncarnationId) -> Option<Arc<NamespaceHand>> {
        let slot = self.lock().get(&incarnation).map(Arc::clone)?;
        let slot = slot.lock().await;
        slot.hand.clone()
    }

    /// Returns the live hand of an incarnation; does not wait for one that is being made.
    pub(super) fn live(&self, incarnation: IncarnationId) -> Option<Arc<NamespaceHand>> {
        let slot = self.lock().get(&incarnation).map(Arc::clone)?;
        let slot = slot.try_lock().ok()?;
        slot.hand.clone().filter(|hand| !hand.is_lost())
    }

    /// Returns all hands that are made.
    pub(super) fn hands(&self) -> Vec<Arc<NamespaceHand>> {
        self.lock()
            .values()
            .filter_map(|slot| slot.try_lock().ok().and_then(|slot| slot.hand.clone()))
            .collect()
    }

    /// Returns the incarnations that have a hand or are being made or ended.
    pub(super) fn incarnations(&self) -> Vec<IncarnationId> {
        let slots = self.lock();
        let filled = slots
            .iter()
            .filter(|(_, slot)| slot.try_lock().map_or(true, |slot| slot.hand.is_some()));
        filled.map(|(incarnation, _)| *incarnation).collect()
    }

    /// Drops the slot of an incarnation that has ended, unless somebody else uses it.
    pub(super) fn forget(&self, incarnation: IncarnationId, slot: Shared) {
        let mut slots = self.lock();
        drop(slot);
        if slots
            .get(&incarnation)
            .is_some_and(|slot| Arc::strong_count(slot) == 1)
        {
            slots.remove(&incarnation);
        }
    }

    /// Locks the table, for a moment only.
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<IncarnationId, Shared>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
