//! Calls and checkpoints of one hand do not meet.

use std::sync::Arc;

use outlast_protocol::id::{IncarnationId, SessionId};
use tokio::{sync::OwnedRwLockReadGuard, time::Instant};

use super::{Schedule, Watched, attempt};
use crate::kernel::Inner;

/// A call in a hand: the hand has something that no checkpoint has. While it is there none is taken,
/// and the hand is not let go for lying unused.
#[derive(Debug)]
pub(crate) struct Use {
    inner: Arc<Inner>,
    incarnation: IncarnationId,
    shared: Option<OwnedRwLockReadGuard<()>>,
}

impl Use {
    /// Begins a call, after a checkpoint that is being packed.
    pub(crate) async fn begin(
        inner: &Arc<Inner>,
        session: SessionId,
        incarnation: IncarnationId,
    ) -> Self {
        let gate = {
            let mut hands = inner.checkpoints.hands();
            let hand = hands.entry(incarnation);
            Arc::clone(&hand.or_insert_with(|| Watched::new(session)).gate)
        };
        let shared = gate.read_owned().await;
        // Where none is ever taken there is nothing to remember for one.
        if inner.options.checkpoints != Schedule::NEVER
            && let Some(hand) = inner.checkpoints.hands().get_mut(&incarnation)
        {
            hand.dirty.get_or_insert_with(Instant::now);
        }
        Self {
            inner: Arc::clone(inner),
            incarnation,
            shared: Some(shared),
        }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        drop(self.shared.take());
        self.inner.hands.left(self.incarnation);
        let (schedule, resting) = (self.inner.options.checkpoints, self.inner.options.hand_idle);
        let due = {
            let mut hands = self.inner.checkpoints.hands();
            // A hand that was forgotten meanwhile stays forgotten.
            let Some(hand) = hands.get_mut(&self.incarnation) else {
                return;
            };
            hand.used = Instant::now();
            // Now or, where calls follow each other closely, never.
            let slots = &self.inner.checkpoints.slots;
            hand.due(self.incarnation, schedule, resting, slots)
        };
        if let Some(due) = due
            && !self.inner.closing.is_cancelled()
        {
            self.inner
                .tasks
                .spawn(attempt(Arc::clone(&self.inner), due));
        }
    }
}
