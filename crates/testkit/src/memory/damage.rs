//! What no store may do: for tests of those who look for it.

use std::sync::Arc;

use outlast_protocol::id::SessionId;
use outlast_session::{Body, State, json};

use super::{Memory, Session};

impl Memory {
    fn damage(&self, session: SessionId, damage: impl FnOnce(&mut Session)) {
        if let Some(log) = self.lock().logs.get_mut(&session) {
            damage(log);
        }
    }

    /// Forgets the last records of a log, as if they had never been written.
    pub fn forget(&self, session: SessionId, records: usize) {
        self.damage(session, |log| {
            let left = log.records.len().saturating_sub(records).max(1);
            log.records.truncate(left);
            let mut state = State::blank(session);
            for record in &log.records {
                // What is left is the beginning of a log, and folds.
                drop(outlast_session::fold(&mut state, &record.entry()));
            }
            log.state = Arc::new(state);
        });
    }

    /// Puts another body into the record at a position.
    pub fn alter(&self, session: SessionId, position: u64) {
        self.damage(session, |log| {
            let records = &mut log.records;
            if let Some(record) = records.iter_mut().find(|known| known.position == position) {
                record.body = Body::Json(json(&"another body"));
            }
        });
    }

    /// Changes the state of a session, and not its log.
    pub fn drift(&self, session: SessionId, change: impl FnOnce(&mut State)) {
        self.damage(session, |log| change(Arc::make_mut(&mut log.state)));
    }
}
