//! Something of each session that is made when it is wanted and goes when nobody holds it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use outlast_protocol::id::SessionId;

/// One `T` for all who want that of a session at the same time.
#[derive(Debug, Default)]
pub(crate) struct PerSession<T>(Mutex<HashMap<SessionId, Weak<T>>>);

impl<T: Default> PerSession<T> {
    /// Returns what others hold, or a new one.
    pub(crate) fn get(&self, session: SessionId) -> Arc<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, held| held.strong_count() > 0);
        if let Some(held) = all.get(&session).and_then(Weak::upgrade) {
            return held;
        }
        let new = Arc::<T>::default();
        all.insert(session, Arc::downgrade(&new));
        new
    }
}
