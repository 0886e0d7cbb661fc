//! What can go wrong below the store's own errors.

use std::error::Error as _;

use outlast_blobs::Away;
use tokio_postgres::error::{Severity, SqlState};

use super::certificate;
use crate::{AppendError, ReadError, WriteError, stored::Unreadable};

/// Why a statement, or what follows from its result, failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The database, or the way to it, says so.
    #[error("{}", words(.0))]
    Sql(#[from] tokio_postgres::Error),
    /// There is no connection, and so nothing was sent.
    #[error("{0}")]
    Away(String),
    /// What was sent was not answered, and nobody knows what became of it.
    #[error("the database says nothing")]
    Silent,
    /// As many wait for a connection as may.
    #[error("too much waits for the database")]
    Crowded,
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

/// Returns the words of an error with those of its cause; the driver keeps them apart.
fn words(error: &tokio_postgres::Error) -> String {
    if let Some(refusal) = certificate::refusal(error) {
        return refusal;
    }
    match (error.as_db_error(), error.source()) {
        (Some(db), _) => format!("{} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
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
    /// Returns the database's own code, if it is the database that refused.
    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Sql(error) => error.code(),
            Self::Away(_)
            | Self::Silent
            | Self::Crowded
            | Self::Blob(_)
            | Self::Unreadable(_)
            | Self::Bug(_) => None,
        }
    }

    /// Tells whether the transaction is known to have done nothing.
    ///
    /// An error that ends the session, or a connection that broke, may have come after the commit.
    pub(super) fn is_certain(&self) -> bool {
        match self {
            Self::Sql(error) => error
                .as_db_error()
                .is_some_and(|error| error.parsed_severity() == Some(Severity::Error)),
            Self::Silent => false,
            Self::Away(_) | Self::Crowded | Self::Blob(_) | Self::Unreadable(_) | Self::Bug(_) => {
                true
            }
        }
    }

    /// Tells whether the same transaction may well succeed another time.
    pub(super) fn is_contention(&self) -> bool {
        let codes = [
            &SqlState::T_R_DEADLOCK_DETECTED,
            &SqlState::T_R_SERIALIZATION_FAILURE,
            &SqlState::LOCK_NOT_AVAILABLE,
        ];
        self.code().is_some_and(|code| codes.contains(&code))
    }

    /// Tells whether the same append fails again, however well the database is.
    fn is_of_the_append(&self) -> bool {
        match self {
            Self::Sql(_) => {
                self.is_certain() && !self.is_contention() && !self.is_of_the_database()
            }
            Self::Away(_)
            | Self::Silent
            | Self::Crowded
            | Self::Blob(outlast_blobs::Error::Unavailable { .. }) => false,
            Self::Blob(outlast_blobs::Error::NotFound(_)) | Self::Unreadable(_) | Self::Bug(_) => {
                true
            }
        }
    }

    /// Tells whether the database as a whole cannot do it now: it is full, starts, stops or only
    /// reads.
    pub(super) fn is_of_the_database(&self) -> bool {
        self.code().is_some_and(|code| {
            let code = code.code();
            code.starts_with("53")
                || code.starts_with("57")
                || code.starts_with("58")
                || code == "25006"
        })
    }
}

impl Fault {
    /// Puts it into words for those who asked.
    pub(super) fn away(&self) -> Away {
        if self.is_of_room() {
            Away::full(self)
        } else {
            Away::other(self)
        }
    }

    /// Tells whether the disk of the database, or that of the blobs, is full.
    pub(super) fn is_of_room(&self) -> bool {
        match self {
            Self::Blob(outlast_blobs::Error::Unavailable { reason, .. }) => reason.is_full(),
            Self::Sql(_)
            | Self::Away(_)
            | Self::Silent
            | Self::Crowded
            | Self::Blob(_)
            | Self::Unreadable(_)
            | Self::Bug(_) => self.code() == Some(&SqlState::DISK_FULL),
        }
    }
}

impl From<Fault> for ReadError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unreadable(reason) | Fault::Bug(reason) => Self::Unreadable(reason),
            Fault::Blob(outlast_blobs::Error::NotFound(key)) => {
                Self::Unreadable(format!("blob `{key}` is missing"))
            }
            Fault::Crowded => Self::Overloaded,
            Fault::Sql(_)
            | Fault::Silent
            | Fault::Away(_)
            | Fault::Blob(outlast_blobs::Error::Unavailable { .. }) => {
                Self::Unavailable(fault.away())
            }
        }
    }
}

impl From<Fault> for WriteError {
    fn from(fault: Fault) -> Self {
        if matches!(fault, Fault::Crowded) {
            Self::Overloaded
        } else {
            Self::Unavailable(fault.away())
        }
    }
}

impl From<&Fault> for AppendError {
    fn from(fault: &Fault) -> Self {
        if matches!(fault, Fault::Crowded) {
            Self::Overloaded
        } else if fault.is_of_the_append() {
            Self::Failed(fault.to_string())
        } else {
            Self::Unavailable(fault.away())
        }
    }
}

impl From<Fault> for AppendError {
    fn from(fault: Fault) -> Self {
        (&fault).into()
    }
}

impl From<tokio_postgres::Error> for ReadError {
    fn from(error: tokio_postgres::Error) -> Self {
        Fault::from(error).into()
    }
}
