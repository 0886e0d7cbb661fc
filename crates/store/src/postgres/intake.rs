//! Taking in whole logs.

use std::sync::Arc;

use async_trait::async_trait;
use outlast_protocol::id::SessionId;
use outlast_session::State;
use tokio::task::spawn_blocking;

use super::{Postgres, connect::Connection, fault::Fault, insert, pool, resources::Written};
use crate::{
    Intake, IntakeError, Source, WriteError,
    intake::{checked, parts},
};

#[async_trait]
impl Intake for Postgres {
    async fn is_here(&self, session: SessionId) -> Result<bool, IntakeError> {
        let text = "SELECT 1 FROM sessions WHERE id = $1";
        let id = session.to_string();
        let asked = async { self.pool.get().await?.exists(text, &[&id]).await };
        asked.await.map_err(unavailable)
    }

    async fn take_in(&self, log: Arc<dyn Source>) -> Result<Arc<State>, IntakeError> {
        let session = log.session();
        if self.is_here(session).await? {
            return Err(IntakeError::Exists(session));
        }
        let (bodies, runtime) = (self.room.bodies.clone(), self.room.runtime.clone());
        let state = checked(log.clone(), bodies, runtime.clone()).await?;
        let (pool, written) = (self.pool.clone(), state.clone());
        // The log is read while its records are written, and reading it blocks.
        let writing = spawn_blocking(move || {
            let work = async { pool::write!(pool, |tx| write(tx, &*log, &written)) };
            runtime.block_on(work)
        });
        match writing.await.map_err(unavailable)? {
            Ok(()) => Ok(state),
            Err(WriteError::Moved { .. }) => Err(IntakeError::Exists(session)),
            Err(error) => Err(unavailable(error)),
        }
    }
}

/// Writes a log that was checked, and everything that is projected from it.
async fn write(tx: &Connection, log: &dyn Source, state: &State) -> Written<()> {
    let Some(no) = insert::session(tx, state).await? else {
        let (id, revision) = (state.id.to_string(), state.tail);
        return Ok(Err(WriteError::Moved { id, revision }));
    };
    for part in parts(log).map_err(unread)? {
        insert::records(tx, no, &part.map_err(unread)?).await?;
    }
    insert::project(tx, no, state, &log.end().hash).await?;
    Ok(Ok(()))
}

fn unread(error: std::io::Error) -> Fault {
    Fault::Unreadable(format!("what was checked cannot be read again: {error}"))
}

fn unavailable(error: impl std::fmt::Display) -> IntakeError {
    IntakeError::Unavailable(error.to_string())
}
