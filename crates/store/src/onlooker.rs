//! Logs looked at from outside of their store: no lock, no migration, no write.

mod projected;
mod walk;

use std::{fmt::Debug, io, path::PathBuf};

use bytes::Bytes;
use outlast_protocol::id::SessionId;
use outlast_session::Record;

pub(crate) use self::{
    projected::{Columns, Holding, Projected},
    walk::along,
};
use crate::{Audit, Damage, Damaged, End, Found, ReadError, postgres::UrlError, stored::Stored};

/// Looks at a log of which bodies are erased meanwhile.
const TRIES: u32 = 3;

/// What is done with a record that fits.
pub type Show<'a> = dyn FnMut(&Record) -> io::Result<()> + 'a;

/// The logs of a database, beside whoever writes them.
///
/// Every method blocks, so it belongs on a thread that may; what is held open between calls keeps
/// no server from anything.
pub trait Onlooker: Debug {
    /// Returns the sessions, in the order they came, deleted ones that are not purged yet too.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    fn sessions(&self) -> Result<Vec<SessionId>, ReadError>;

    /// Returns where a session ends by its head; `None` if it is not there, or deleted.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    fn end(&self, session: SessionId) -> Result<Option<End>, ReadError>;

    /// Checks a log, everything that is projected from it, and that it reaches what was `noted`;
    /// shows each record that fits, in order.
    ///
    /// It is checked up to the head that it has when this begins; what it holds in memory grows with
    /// the bodies that were erased, and with nothing else of the log.
    ///
    /// # Errors
    ///
    /// If the database or the blobs cannot be read, and what `show` fails with; damage is no error.
    fn along(
        &self,
        session: SessionId,
        noted: &[End],
        show: &mut Show<'_>,
    ) -> Result<Audit, ReadError>;

    /// Does what [`along`](Self::along) does, and shows nothing.
    ///
    /// # Errors
    ///
    /// If the database or the blobs cannot be read; damage is no error.
    fn audit(&self, session: SessionId, noted: &[End]) -> Result<Audit, ReadError> {
        let mut audit = self.along(session, noted, &mut |_| Ok(()))?;
        for _ in 1..TRIES {
            match &audit.found {
                // Erased behind the back of the first look: the next one sees that it is gone.
                Found::Broken(damaged) if damaged.what == Damage::Restored => {
                    audit = self.along(session, noted, &mut |_| Ok(()))?;
                }
                Found::Whole | Found::Broken(_) | Found::Deleted | Found::Gone => break,
            }
        }
        Ok(audit)
    }
}

/// Why a database cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// There is none.
    #[error("there is no database `{}`", .0.display())]
    Missing(PathBuf),
    /// The URL cannot be used.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Its tables are those of another version.
    #[error("the database has schema {found}, and this version reads {known}")]
    Schema {
        /// What the database has.
        found: usize,
        /// What this version reads.
        known: usize,
    },
    /// It cannot be opened or read.
    #[error("the database cannot be read: {0}")]
    Unreadable(String),
}

/// A row as it is: readable, with whether clients are to see it, or damaged.
pub(crate) type Seen = Result<(Stored, bool), Damaged>;

/// What a look at a log is made of, whatever the tables.
pub(crate) trait Tables: Onlooker {
    /// Reads everything that is kept of a session beside its records, at one moment.
    fn projected(&self, session: SessionId) -> Result<Option<Projected>, ReadError>;

    /// Reads a few rows behind `after`, up to the head, as far as they can be read.
    fn page(&self, kept: &Projected, after: u64) -> Result<Vec<Seen>, ReadError>;

    /// Returns the kind of a record, as it is stored.
    fn kind(&self, no: i64, position: u64) -> Result<Option<String>, ReadError>;

    /// Loads what is stored as a body, if anything is.
    fn body(&self, session: SessionId, digest: &[u8; 32]) -> Result<Option<Bytes>, ReadError>;
}
