//! Tells a brain in this process what happens to its thread while it works.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use outlast_protocol::id::SessionId;
use outlast_session::State;
use tokio::sync::watch;

/// The newest states of the sessions that brains of this process hold leases of.
#[derive(Debug, Default)]
pub(crate) struct Signals(Mutex<HashMap<SessionId, watch::Sender<Arc<State>>>>);

impl Signals {
    /// Follows the state of a session from `state` on.
    pub(crate) fn follow(&self, state: &Arc<State>) -> watch::Receiver<Arc<State>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = all
            .entry(state.id)
            .or_insert_with(|| watch::Sender::new(state.clone()));
        advance(sender, state);
        sender.subscribe()
    }

    /// Tells whoever follows; an older state than the last is dropped.
    pub(crate) fn publish(&self, state: &Arc<State>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = all.get(&state.id) else {
            return;
        };
        if sender.receiver_count() == 0 {
            all.remove(&state.id);
            return;
        }
        advance(sender, state);
    }
}

fn advance(sender: &watch::Sender<Arc<State>>, state: &Arc<State>) {
    sender.send_if_modified(|last| {
        let newer = state.tail > last.tail;
        if newer {
            *last = state.clone();
        }
        newer
    });
}
