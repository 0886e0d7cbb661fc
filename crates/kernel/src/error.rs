//! Errors of the two doors.

use outlast_protocol::{
    ErrorCode, Problem,
    id::{EnvironmentId, FileId, SessionId},
};
use outlast_session::Refusal;
use outlast_store::{AppendError, Away, ReadError, WriteError};

/// What a session's log is called to those who wait for it.
const LOG: &str = "the log";

/// Why a brain cannot go on under its lease.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LeaseError {
    /// Somebody else has it, or the session is gone: stop, touch nothing more.
    #[error("the lease is over: {0}")]
    Over(String),
    /// What was proposed cannot follow; a fault of the brain, which must stop.
    #[error("the proposal is illegal: {0}")]
    Illegal(String),
    /// This process does not know whether it lives, so nothing begins; the lease may be its own still.
    #[error("no beat of this process was confirmed for long, so nothing begins")]
    Unsure,
    /// A part of this process died on it: a fault of our own.
    #[error("a part of the server broke: {0}")]
    Broken(String),
    /// The log cannot be written or read now.
    #[error("{0}")]
    Unavailable(String),
}

impl From<AppendError> for LeaseError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Unavailable(away) => Self::Unavailable(away.reason),
            AppendError::Failed(reason) => Self::Unavailable(reason),
            error @ (AppendError::Overloaded | AppendError::Crowded(_)) => {
                Self::Unavailable(error.to_string())
            }
            AppendError::Refused(refusal @ (Refusal::Stale { .. } | Refusal::Held { .. })) => {
                Self::Over(refusal.to_string())
            }
            AppendError::Refused(refusal) => Self::Illegal(refusal.to_string()),
            error @ (AppendError::NotFound(_)
            | AppendError::Missing(_)
            | AppendError::Dead(_)
            | AppendError::Answered) => Self::Over(error.to_string()),
        }
    }
}

impl From<ReadError> for LeaseError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotFound(_) => Self::Over(error.to_string()),
            ReadError::Unreadable(_) | ReadError::Overloaded | ReadError::Unavailable(_) => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}

/// Returns what a client is told of a failed append.
pub(crate) fn append(error: AppendError) -> Problem {
    match error {
        AppendError::NotFound(session) => Problem::not_found(format_args!("session `{session}`")),
        AppendError::Missing(what) if what.starts_with(EnvironmentId::PREFIX) => {
            let words = format!("environment_id: environment `{what}` not found");
            Problem::new(ErrorCode::EnvironmentNotFound, words)
        }
        AppendError::Missing(what) if what.starts_with(FileId::PREFIX) => {
            Problem::not_found(format_args!("file_id: file `{what}`"))
        }
        AppendError::Missing(what) => Problem::not_found(format_args!("`{what}`")),
        AppendError::Refused(Refusal::Client(problem)) => problem,
        AppendError::Unavailable(away) => unavailable(LOG, &away),
        AppendError::Overloaded => overloaded(),
        AppendError::Crowded(session) => {
            let words =
                format!("too many requests for session `{session}` wait; send fewer at once");
            Problem::new(ErrorCode::RateLimited, words)
        }
        // Another process can do it.
        error @ AppendError::Dead(_) => unavailable(LOG, &Away::other(error)),
        AppendError::Answered => answered(),
        AppendError::Refused(refusal) => internal(&refusal),
        AppendError::Failed(reason) => internal(&reason),
    }
}

/// Returns what a client is told of a failed read of a session.
pub(crate) fn of(session: SessionId, fault: &ReadError) -> Problem {
    match fault {
        ReadError::NotFound(_) => Problem::not_found(format_args!("session `{session}`")),
        ReadError::Unreadable(_) | ReadError::Overloaded | ReadError::Unavailable(_) => read(fault),
    }
}

/// Returns what a client is told of a failed read.
pub(crate) fn read(error: &ReadError) -> Problem {
    match error {
        ReadError::NotFound(what) => Problem::not_found(format_args!("`{what}`")),
        ReadError::Overloaded => overloaded(),
        ReadError::Unavailable(away) => unavailable(LOG, away),
        ReadError::Unreadable(_) => internal(error),
    }
}

/// Returns what a client is told of a task that died.
pub(crate) fn internal(cause: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%cause, "a request failed for a reason of our own: {cause}");
    Problem::new(
        ErrorCode::Internal,
        "internal server error; the log has the cause under this id",
    )
}

/// Returns what a client is told while `what` cannot be written or read.
///
/// Why is for the operator alone. That a disk is full the client is told too, because then it knows that
/// somebody has to make room; where that is, is not its business.
pub fn unavailable(what: &str, away: &Away) -> Problem {
    if away.is_full() {
        // Whoever met it tells the operator now and then; the log may lie on the same disk.
        tracing::debug!(%away, "{what} cannot be written: {away}");
        let words = format!(
            "the server's disk is full: {what} cannot be written until there is room; nothing was accepted"
        );
        return Problem::new(ErrorCode::DiskFull, words);
    }
    tracing::error!(reason = %away, "{what} cannot be written or read: {away}");
    let words = format!("{what} cannot be written or read now; nothing was accepted");
    Problem::new(ErrorCode::Unavailable, words)
}

/// As much waits for the store as may.
fn overloaded() -> Problem {
    let words = "too much work waits for the store; nothing was accepted";
    Problem::new(ErrorCode::Overloaded, words)
}

/// Another attempt of the request was accepted; the next one gets its answer.
pub(crate) fn answered() -> Problem {
    Problem::new(
        ErrorCode::Unavailable,
        "another attempt of this request was accepted at the same time; the next one gets its answer",
    )
}

/// Returns what a client is told of a failed write of a plain resource.
pub(crate) fn write(error: &WriteError) -> Problem {
    match error {
        WriteError::NotFound(what) => Problem::not_found(format_args!("`{what}`")),
        WriteError::Moved { .. } | WriteError::Taken(_) => {
            Problem::new(ErrorCode::Conflict, error.to_string())
        }
        WriteError::Referenced(_) | WriteError::Archived(_) | WriteError::Full(_) => {
            Problem::invalid(error.to_string())
        }
        WriteError::Overloaded => overloaded(),
        WriteError::Unavailable(away) => unavailable(LOG, away),
        WriteError::Answered => answered(),
    }
}
