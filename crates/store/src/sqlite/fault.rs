//! What can go wrong below the store's own errors.

use rusqlite::ErrorCode;

use crate::{ReadError, WriteError, stored::Unreadable};

/// Why a statement, or what follows from its result, failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The database says so.
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    /// The transaction could not be made durable.
    #[error("the commit failed: {0}")]
    Commit(rusqlite::Error),
    /// A blob cannot be stored or loaded.
    #[error(transparent)]
    Blob(#[from] outlast_blobs::Error),
    /// A row cannot be understood by this version, or is damaged.
    #[error("{0}")]
    Unreadable(String),
    /// A fault of this program.
    #[error("{0}")]
    Bug(String),
}

impl From<Unreadable> for Fault {
    fn from(Unreadable(reason): Unreadable) -> Self {
        Self::Unreadable(reason)
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self::Bug(error.to_string())
    }
}

impl Fault {
    /// Tells whether the disk or the whole database is at fault, and not one statement.
    pub(super) fn is_of_the_disk(&self) -> bool {
        match self {
            Self::Sql(error) => error.sqlite_error_code().is_some_and(concerns_all),
            Self::Commit(_) => true,
            Self::Blob(_) | Self::Unreadable(_) | Self::Bug(_) => false,
        }
    }
}

/// Tells which results are not about the statement that met them.
fn concerns_all(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::OutOfMemory
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed
    )
}

impl From<Fault> for ReadError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unreadable(reason) | Fault::Bug(reason) => Self::Unreadable(reason),
            Fault::Blob(outlast_blobs::Error::NotFound(key)) => {
                Self::Unreadable(format!("blob `{key}` is missing"))
            }
            Fault::Sql(_)
            | Fault::Commit(_)
            | Fault::Blob(outlast_blobs::Error::Unavailable { .. }) => {
                Self::Unavailable(fault.to_string())
            }
        }
    }
}

impl From<Fault> for WriteError {
    fn from(fault: Fault) -> Self {
        Self::Unavailable(fault.to_string())
    }
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Fault::from(error).into()
    }
}
