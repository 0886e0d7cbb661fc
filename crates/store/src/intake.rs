//! Whole logs that come from elsewhere.

use std::{fmt::Debug, io, sync::Arc};

use async_trait::async_trait;
use outlast_protocol::id::SessionId;
use outlast_session::{Record, State};
use tokio::{runtime::Handle, task::spawn_blocking};

use crate::{Auditor, Damaged, End, bodies::Bodies, staging::is_large, stored::Stored};

/// Records that are written at a time.
const PART: usize = 500;

/// Bytes of bodies in rows after which a part is not made larger.
const PART_BYTES: usize = 4 * 1024 * 1024;

/// A store that takes in whole logs.
#[async_trait]
pub trait Intake: Debug + Send + Sync {
    /// Takes in a log with its ids, salts and hashes; returns the state at its head.
    ///
    /// Nothing is written before the whole log was checked, and its records and all that is
    /// projected from them are written at once. Bodies that go to blobs are stored before; what a
    /// crash leaves of them is overwritten by the next attempt. No brain may work meanwhile.
    ///
    /// # Errors
    ///
    /// If the session is here already, deleted or not, or the log is not whole.
    async fn take_in(&self, log: Arc<dyn Source>) -> Result<Arc<State>, IntakeError>;

    /// Tells whether a session is here, deleted or not.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    async fn is_here(&self, session: SessionId) -> Result<bool, IntakeError>;
}

/// A log that can be read several times, and gives the same each time.
pub trait Source: Debug + Send + Sync {
    /// Returns the session that it is of.
    fn session(&self) -> SessionId;

    /// Returns where it ends.
    fn end(&self) -> End;

    /// Reads it from its first record; bodies are there, erased ones aside.
    fn records(&self) -> io::Result<Records<'_>>;
}

/// Records on their way.
pub type Records<'a> = Box<dyn Iterator<Item = io::Result<Record>> + Send + 'a>;

/// Why a log was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// The session is here, or was.
    #[error("session `{0}` is here already")]
    Exists(SessionId),
    /// The log is not what was written.
    #[error("session `{session}` is broken at {damaged}")]
    Broken {
        /// The session.
        session: SessionId,
        /// Where and how.
        damaged: Damaged,
    },
    /// It ends with the session's deletion.
    #[error("session `{0}` was deleted")]
    Deleted(SessionId),
    /// It cannot be read.
    #[error("session `{session}` cannot be read: {error}")]
    Source {
        /// The session.
        session: SessionId,
        /// Why.
        error: io::Error,
    },
    /// The disk or the database fails.
    #[error("the store cannot be written: {0}")]
    Unavailable(String),
}

/// Goes along a log once, and folds it.
///
/// # Errors
///
/// If it is not whole, or nothing to go on with.
pub fn check(log: &dyn Source) -> Result<State, IntakeError> {
    let session = log.session();
    let broken = |damaged| IntakeError::Broken { session, damaged };
    let unread = |error| IntakeError::Source { session, error };
    let mut auditor = Auditor::new(session, &[]);
    for record in log.records().map_err(unread)? {
        auditor.step(&record.map_err(unread)?).map_err(broken)?;
    }
    auditor.finish(log.end()).map_err(broken)?;
    let state = auditor.state();
    if state.deleted {
        return Err(IntakeError::Deleted(session));
    }
    Ok(state.clone())
}

/// Checks a log, and puts its large bodies into blobs; returns what it folds to.
pub(crate) async fn checked(
    log: Arc<dyn Source>,
    bodies: Bodies,
    runtime: Handle,
) -> Result<Arc<State>, IntakeError> {
    let checking = spawn_blocking(move || {
        let state = check(&*log)?;
        stage(&*log, &bodies, &runtime)?;
        Ok(Arc::new(state))
    });
    let unavailable = |error: tokio::task::JoinError| IntakeError::Unavailable(error.to_string());
    checking.await.map_err(unavailable)?
}

/// Puts the large bodies of a log into blobs.
fn stage(log: &dyn Source, bodies: &Bodies, runtime: &Handle) -> Result<(), IntakeError> {
    let session = log.session();
    let unread = |error| IntakeError::Source { session, error };
    for record in log.records().map_err(unread)? {
        let record = record.map_err(unread)?;
        if let Some(body) = record.body.written()
            && is_large(body.get())
        {
            let put = bodies.put(session, &record.digest, body.clone());
            let failed = |error: outlast_blobs::Error| IntakeError::Unavailable(error.to_string());
            runtime.block_on(put).map_err(failed)?;
        }
    }
    Ok(())
}

/// Returns a log as its rows will have it, a part at a time; large bodies lie in blobs by now.
pub(crate) fn parts(
    log: &dyn Source,
) -> io::Result<impl Iterator<Item = io::Result<Vec<Stored>>> + '_> {
    let mut records = log.records()?;
    Ok(std::iter::from_fn(move || part(&mut records).transpose()))
}

fn part(records: &mut Records<'_>) -> io::Result<Option<Vec<Stored>>> {
    let (mut part, mut bytes) = (Vec::new(), 0);
    while part.len() < PART && bytes < PART_BYTES {
        let Some(record) = records.next().transpose()? else {
            break;
        };
        let text = record.body.written().map(|body| body.get());
        let away = text.is_some_and(is_large);
        let size = text.unwrap_or_else(|| record.body.text()).len();
        let blob = away.then(|| u64::try_from(size).unwrap_or(u64::MAX));
        bytes += if away { 0 } else { size };
        part.push(Stored { record, blob });
    }
    Ok((!part.is_empty()).then_some(part))
}
