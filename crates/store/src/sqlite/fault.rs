//! What can go wrong below the store's own errors.

use outlast_blobs::Away;
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

    /// Puts it into words for those who asked.
    pub(super) fn away(&self) -> Away {
        match self {
            Self::Blob(outlast_blobs::Error::Unavailable { reason, .. }) if reason.is_full() => {
                Away::full(self)
            }
            Self::Sql(error) | Self::Commit(error)
                if error.sqlite_error_code() == Some(ErrorCode::DiskFull) =>
            {
                Away::full(self)
            }
            Self::Sql(_) | Self::Commit(_) | Self::Blob(_) | Self::Unreadable(_) | Self::Bug(_) => {
                Away::other(self)
            }
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
                Self::Unavailable(fault.away())
            }
        }
    }
}

impl From<Fault> for WriteError {
    fn from(fault: Fault) -> Self {
        Self::Unavailable(fault.away())
    }
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Fault::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::{Error, ffi};

    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_troubles() {
        let of = |code| Error::SqliteFailure(ffi::Error::new(code), None);
        for (code, full) in [
            (ffi::SQLITE_FULL, true),
            (ffi::SQLITE_IOERR_WRITE, false),
            (ffi::SQLITE_BUSY, false),
        ] {
            assert_eq!(Fault::Commit(of(code)).away().is_full(), full, "{code}");
            assert_eq!(Fault::Sql(of(code)).away().is_full(), full, "{code}");
        }
    }
}
