//! Which incarnations this process has.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use outlast_protocol::id::IncarnationId;

use super::NamespaceHand;

/// Keeps others from making or ending an incarnation meanwhile.
pub(super) type Turn = tokio::sync::OwnedMutexGuard<()>;

/// One incarnation.
///
/// Its hand can be asked for without a turn: whoever makes sure that it lives does not make it seem
/// gone to others.
#[derive(Debug, Default)]
pub(super) struct Slot {
    turn: Arc<tokio::sync::Mutex<()>>,
    hand: Mutex<Option<Arc<NamespaceHand>>>,
}

impl Slot {
    /// Waits for the turn to make or end it.
    pub(super) async fn turn(&self) -> Turn {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Returns its hand, dead or alive.
    pub(super) fn hand(&self) -> Option<Arc<NamespaceHand>> {
        self.lock().clone()
    }

    /// Puts a hand in, whose turn it is.
    pub(super) fn fill(&self, hand: &Arc<NamespaceHand>, _turn: &Turn) {
        *self.lock() = Some(Arc::clone(hand));
    }

    /// Takes the hand out, whose turn it is.
    pub(super) fn clear(&self, _turn: &Turn) {
        *self.lock() = None;
    }

    fn is_empty(&self) -> bool {
        self.lock().is_none()
    }

    /// Locks the hand, for a moment only.
    fn lock(&self) -> MutexGuard<'_, Option<Arc<NamespaceHand>>> {
        self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slot that tasks share.
pub(super) type Shared = Arc<Slot>;

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
        if let Some(hand) = slot.hand() {
            return Some(hand);
        }
        let _turn = slot.turn().await;
        slot.hand()
    }

    /// Returns the hand of an incarnation, dead or alive; does not wait for one that is being made.
    pub(super) fn own(&self, incarnation: IncarnationId) -> Option<Arc<NamespaceHand>> {
        self.lock().get(&incarnation)?.hand()
    }

    /// Returns the live hand of an incarnation; does not wait for one that is being made.
    pub(super) fn live(&self, incarnation: IncarnationId) -> Option<Arc<NamespaceHand>> {
        self.own(incarnation).filter(|hand| !hand.is_lost())
    }

    /// Returns all hands that are made.
    pub(super) fn hands(&self) -> Vec<Arc<NamespaceHand>> {
        self.lock()
            .values()
            .filter_map(|slot| slot.hand())
            .collect()
    }

    /// Returns the incarnations that have a hand or are being made or ended.
    pub(super) fn incarnations(&self) -> Vec<IncarnationId> {
        let slots = self.lock();
        let filled = slots
            .iter()
            .filter(|(_, slot)| !slot.is_empty() || slot.turn.try_lock().is_err());
        filled.map(|(incarnation, _)| *incarnation).collect()
    }

    /// Drops the slot of an incarnation that has no hand here, unless somebody else uses it.
    pub(super) fn forget(&self, incarnation: IncarnationId, slot: Shared) {
        let mut slots = self.lock();
        drop(slot);
        let unused = |slot: &Shared| slot.is_empty() && Arc::strong_count(slot) == 1;
        if slots.get(&incarnation).is_some_and(unused) {
            slots.remove(&incarnation);
        }
    }

    /// Locks the table, for a moment only.
    fn lock(&self) -> MutexGuard<'_, HashMap<IncarnationId, Shared>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
