//! Taking in whole logs.

use std::{io, sync::Arc};

use async_trait::async_trait;
use outlast_protocol::id::SessionId;
use outlast_session::State;
use rusqlite::Connection;

use super::{Sqlite, fault::Fault, insert, named};
use crate::{
    Intake, IntakeError, ReadError, Source, WriteError,
    heads::Head,
    intake::{checked, parts},
};

#[async_trait]
impl Intake for Sqlite {
    async fn is_here(&self, session: SessionId) -> Result<bool, IntakeError> {
        let known = self.readers.read(move |tx| Ok(exists(tx, session)?)).await;
        known.map_err(|error: ReadError| unavailable(error))
    }

    async fn take_in(&self, log: Arc<dyn Source>) -> Result<Arc<State>, IntakeError> {
        let session = log.session();
        if self.is_here(session).await? {
            return Err(IntakeError::Exists(session));
        }
        let loader = self.room.loader.clone();
        let state = checked(log.clone(), loader.bodies, loader.handle).await?;
        let written = state.clone();
        let done = self.background(move |tx| write(tx, &*log, &written)).await;
        match done {
            Ok(()) => Ok(state),
            Err(WriteError::Moved { .. }) => Err(IntakeError::Exists(session)),
            Err(error) => Err(unavailable(error)),
        }
    }
}

fn exists(connection: &Connection, session: SessionId) -> Result<bool, Fault> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?;
    Ok(statement.exists([session.to_string()])?)
}

/// Writes a log that was checked, and everything that is projected from it.
fn write(
    transaction: &Connection,
    log: &dyn Source,
    state: &Arc<State>,
) -> Result<Result<(), WriteError>, Fault> {
    if exists(transaction, state.id)? {
        let (id, revision) = (state.id.to_string(), state.tail);
        return Ok(Err(WriteError::Moved { id, revision }));
    }
    let hash = log.end().hash;
    let head = Head {
        no: insert::session(transaction, state, &hash)?,
        state: state.clone(),
        hash,
    };
    for part in parts(log).map_err(unread)? {
        for stored in part.map_err(unread)? {
            insert::record(transaction, head.no, &stored)?;
        }
    }
    insert::config(transaction, None, &head)?;
    insert::threads(transaction, None, &head)?;
    named::keep(transaction, None, &head)?;
    Ok(Ok(()))
}

fn unread(error: io::Error) -> Fault {
    Fault::Unreadable(format!("what was checked cannot be read again: {error}"))
}

fn unavailable(error: impl std::fmt::Display) -> IntakeError {
    IntakeError::Unavailable(error.to_string())
}
