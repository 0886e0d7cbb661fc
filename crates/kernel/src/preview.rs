//! Previews: text on its way to whoever watches, stored nowhere.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use outlast_protocol::{
    event::Previewed,
    id::{EventId, SessionId},
};
use tokio::sync::broadcast;

/// Previews that a slow reader may be behind before it loses the rest of an event's text.
///
/// Room for all of them is taken with the first reader of a thread: some 80 bytes each.
const BEHIND: usize = 256;

/// A piece of an event that is being made.
#[derive(Clone, Debug, PartialEq)]
pub enum Preview {
    /// The event begins. Shown only after the record at `after`, the start of its request.
    Start {
        /// The position that a reader must have reached.
        after: u64,
        /// The event to come.
        event: Previewed,
    },
    /// More text of it.
    Delta {
        /// The event to come.
        event: EventId,
        /// The text block, from 0.
        index: u32,
        /// The text.
        text: String,
    },
}

/// A subscription to the previews of one thread.
pub type Previews = broadcast::Receiver<Preview>;

/// Channels of the threads that somebody watches.
#[derive(Debug, Default)]
pub(crate) struct Bus(Mutex<HashMap<(SessionId, u32), broadcast::Sender<Preview>>>);

impl Bus {
    /// Watches a thread.
    pub(crate) fn subscribe(&self, session: SessionId, thread: u32) -> Previews {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, sender| sender.receiver_count() > 0);
        all.entry((session, thread))
            .or_insert_with(|| broadcast::Sender::new(BEHIND))
            .subscribe()
    }

    /// Sends to whoever watches, and never waits.
    pub(crate) fn publish(&self, session: SessionId, thread: u32, preview: Preview) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = all.get(&(session, thread)) {
            // Nobody left to read it is no failure.
            drop(sender.send(preview));
        }
    }

    /// Tells whether anybody watches.
    pub(crate) fn is_watched(&self, session: SessionId, thread: u32) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(session, thread))
            .is_some_and(|sender| sender.receiver_count() > 0)
    }
}
