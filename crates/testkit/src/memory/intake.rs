//! Taking in whole logs, in memory.

use std::{collections::BTreeMap, io, sync::Arc};

use async_trait::async_trait;
use outlast_protocol::id::SessionId;
use outlast_session::State;
use outlast_store::{Intake, IntakeError, Source, check};

use super::{Memory, Session};

#[async_trait]
impl Intake for Memory {
    async fn is_here(&self, session: SessionId) -> Result<bool, IntakeError> {
        Ok(self.lock().logs.contains_key(&session))
    }

    async fn take_in(&self, log: Arc<dyn Source>) -> Result<Arc<State>, IntakeError> {
        let session = log.session();
        let mut inner = self.lock();
        if inner.logs.contains_key(&session) {
            return Err(IntakeError::Exists(session));
        }
        let state = Arc::new(check(&*log)?);
        let unread = |error| IntakeError::Source { session, error };
        let records: io::Result<Vec<_>> = log.records().and_then(Iterator::collect);
        let mut new = Session {
            records: Vec::new(),
            events: BTreeMap::new(),
            state: state.clone(),
            tails: Vec::new(),
            since: BTreeMap::new(),
            snapshots: BTreeMap::new(),
        };
        new.extend(records.map_err(unread)?);
        new.advance(&state);
        inner.logs.insert(session, new);
        Ok(state)
    }
}
