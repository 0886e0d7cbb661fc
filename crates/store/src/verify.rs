//! Proof that a log is whole.

use outlast_protocol::{Micros, id::SessionId};
use outlast_session::{Record, chain};

use crate::{End, seal::header};

/// A log is not what was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("record {position} of the log: {what}")]
pub struct Broken {
    /// The first record that does not fit.
    pub position: u64,
    /// What is wrong with it.
    pub what: Flaw,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Flaw {
    /// Its position does not follow.
    #[error("records before it are missing")]
    Missing,
    /// Its header or a record before it was changed.
    #[error("its hash does not follow from those before it")]
    Hash,
    /// Its body was changed.
    #[error("its body is not the one that was written")]
    Body,
    /// It is earlier than the record before it.
    #[error("its time lies before that of the record before it")]
    Time,
}

/// Checks records of a log from the first one on, as many at a time as the caller likes.
#[derive(Clone, Debug)]
pub struct Verifier {
    end: End,
    at: Micros,
    erased: u64,
}

impl Verifier {
    /// Begins in front of the first record.
    pub fn new(session: SessionId) -> Self {
        Self {
            end: End::of_nothing(session),
            at: Micros(i64::MIN),
            erased: 0,
        }
    }

    /// Checks the next record.
    ///
    /// # Errors
    ///
    /// What is wrong; nothing behind it can be checked then.
    pub fn check(&mut self, record: &Record) -> Result<(), Broken> {
        let position = record.position;
        match self.flaw(record) {
            Some(what) => Err(Broken { position, what }),
            None => {
                self.end = End {
                    tail: position,
                    hash: record.hash,
                };
                self.at = record.at;
                self.erased += u64::from(record.body.is_erased());
                Ok(())
            }
        }
    }

    fn flaw(&self, record: &Record) -> Option<Flaw> {
        if record.position != self.end.tail + 1 {
            return Some(Flaw::Missing);
        }
        if chain::hash(&self.end.hash, &header(record)) != record.hash {
            return Some(Flaw::Hash);
        }
        let true_body = match (record.body.written(), &record.salt) {
            (Some(json), Some(salt)) => chain::digest(salt, json.get()) == record.digest,
            (None, salt) => salt.is_none(),
            (Some(_), None) => false,
        };
        if !true_body {
            return Some(Flaw::Body);
        }
        (record.at < self.at).then_some(Flaw::Time)
    }

    /// Returns where the checked records end: a log that goes on elsewhere was cut.
    pub fn end(&self) -> End {
        self.end
    }

    /// Returns how many bodies were erased.
    pub fn erased(&self) -> u64 {
        self.erased
    }
}

/// Checks all records of a log; returns where it ends.
///
/// # Errors
///
/// The first record that does not fit.
pub fn verify(session: SessionId, records: &[Record]) -> Result<End, Broken> {
    let mut verifier = Verifier::new(session);
    for record in records {
        verifier.check(record)?;
    }
    Ok(verifier.end())
}
