//! Taking in whole logs.

use std::{io, sync::Arc};

use async_trait::async_trait;
use outlast_protocol::id::SessionId;
use outlast_session::{Body, State};
use rusqlite::Connection;
use tokio::task::spawn_blocking;

use super::{Sqlite, fault::Fault, insert, load::Loader, named};
use crate::{
    Intake, IntakeError, ReadError, Source, WriteError, check, heads::Head, staging::is_large,
    stored::Stored,
};

#[async_trait]
impl Intake for Sqlite {
    async fn take_in(&self, log: Arc<dyn Source>) -> Result<Arc<State>, IntakeError> {
        let session = log.session();
        if self.is_here(session).await? {
            return Err(IntakeError::Exists(session));
        }
        let (source, loader) = (log.clone(), self.room.loader.clone());
        let checked = spawn_blocking(move || {
            let state = check(&*source)?;
            stage(&*source, &loader)?;
            Ok(state)
        });
        let checked: Result<State, IntakeError> = checked.await.map_err(unavailable)?;
        let state = Arc::new(checked?);
        let written = state.clone();
        let done = self.background(move |tx| write(tx, &*log, &written)).await;
        match done {
            Ok(()) => Ok(state),
            Err(WriteError::Moved { .. }) => Err(IntakeError::Exists(session)),
            Err(error) => Err(unavailable(error)),
        }
    }
}

impl Sqlite {
    /// Tells whether a session is here, deleted or not.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    pub async fn is_here(&self, session: SessionId) -> Result<bool, IntakeError> {
        let known = self.readers.read(move |tx| Ok(exists(tx, session)?)).await;
        known.map_err(|error: ReadError| unavailable(error))
    }
}

fn exists(connection: &Connection, session: SessionId) -> Result<bool, Fault> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?;
    Ok(statement.exists([session.to_string()])?)
}

/// Puts the large bodies of a log into blobs.
fn stage(log: &dyn Source, loader: &Loader) -> Result<(), IntakeError> {
    let session = log.session();
    let unread = |error| IntakeError::Source { session, error };
    for record in log.records().map_err(unread)? {
        let record = record.map_err(unread)?;
        if let Body::Json(body) = record.body
            && is_large(body.get())
        {
            let put = loader.bodies.put(session, &record.digest, body);
            loader.handle.block_on(put).map_err(unavailable)?;
        }
    }
    Ok(())
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
    for record in log.records().map_err(unread)? {
        let record = record.map_err(unread)?;
        let size = match &record.body {
            Body::Json(body) if is_large(body.get()) => u64::try_from(body.get().len()).ok(),
            Body::Json(_) | Body::Erased => None,
        };
        let stored = Stored { record, blob: size };
        insert::record(transaction, head.no, &stored)?;
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
