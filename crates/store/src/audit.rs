//! What is found out about a log from outside of its store: whole, erased, broken and where.

mod holes;

use outlast_protocol::id::SessionId;
use outlast_session::{Kind, Record, State, body::Erased, fold};

use self::holes::Holes;

use crate::{Broken, End, Flaw, Verifier};

/// Positions of erased records that are named; all are counted.
const NAMED: usize = 100;

/// What was found out about one session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Audit {
    /// The session.
    pub session: SessionId,
    /// Where the records that were looked at and fit end.
    pub end: End,
    /// Bodies that were erased.
    pub erased: u64,
    /// The first positions of these, a hundred at most.
    pub erased_at: Vec<u64>,
    /// Whether the stored state was compared with the log: one of another version is not.
    pub compared: bool,
    /// The verdict.
    pub found: Found,
}

/// The verdict on a log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found {
    /// Every record is what was written, erased bodies aside, and none is missing.
    Whole,
    /// Something is not what was written.
    Broken(Damaged),
    /// The session was deleted; what is left of it waits to be removed.
    Deleted,
    /// No such session is here: it was deleted long ago, or removed by somebody else.
    Gone,
}

/// Where a log is not what was written, and how.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("position {position}: {what}")]
pub struct Damaged {
    /// The first position that does not fit.
    pub position: u64,
    /// What is wrong there.
    pub what: Damage,
}

/// What is wrong at a position.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Damage {
    /// The chain does not hold.
    #[error(transparent)]
    Chain(#[from] Flaw),
    /// There is no such record, and there are later ones.
    #[error("the record is missing")]
    Missing,
    /// The body was erased, and no record says so.
    #[error("its body was erased, and no record says so")]
    Untold,
    /// The body was erased, and stands there again; or did, when a look at it began.
    #[error("its body was erased, and was there all the same")]
    Restored,
    /// What is left of an erased body is not what was recorded.
    #[error("what is left of its erased body is not what was recorded")]
    Remains,
    /// The body is in neither the row nor a blob, and nobody erased it.
    #[error("its body is missing")]
    Lost,
    /// This version cannot read the record.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// The chain holds, and the record makes no sense where it stands.
    #[error("it does not follow from the records before it: {0}")]
    Fold(String),
    /// The log ends before its head.
    #[error("the log ends before it, and its head is at {0}")]
    Cut(u64),
    /// The log ends where its head is, with another hash.
    #[error("the head has another hash than the last record")]
    Head,
    /// The head and the log end before what was noted elsewhere.
    #[error("the log ends before it, and was at {0} when its head was noted")]
    CutSince(u64),
    /// The log has another record there than when its head was noted.
    #[error("it is another record than the one that was noted")]
    Rewritten,
    /// There are records beyond the head.
    #[error("there are records which the head does not count")]
    Stray,
    /// What is kept beside the log does not follow from it.
    #[error("{0} is not what follows from the log")]
    Projection(&'static str),
}

impl Damage {
    /// Returns the word that programs tell it by.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Chain(Flaw::Body) => "body",
            Self::Chain(Flaw::Hash) => "header",
            Self::Chain(Flaw::Time) => "time",
            Self::Chain(Flaw::Missing) | Self::Missing => "missing",
            Self::Untold => "untold",
            Self::Restored => "restored",
            Self::Remains => "remains",
            Self::Lost => "lost",
            Self::Unreadable(_) => "unreadable",
            Self::Fold(_) => "fold",
            Self::Cut(_) => "cut",
            Self::Head => "head",
            Self::CutSince(_) => "cut_since",
            Self::Rewritten => "rewritten",
            Self::Stray => "stray",
            Self::Projection(_) => "projection",
        }
    }

    /// Says where it is.
    pub(crate) fn at(self, position: u64) -> Damaged {
        let what = self;
        Damaged { position, what }
    }
}

/// Goes along a log from its first record: chain, fold, and ends that were noted elsewhere.
///
/// What it holds grows with the bodies that were erased, and with nothing else of the log.
#[derive(Clone, Debug)]
pub struct Auditor {
    verifier: Verifier,
    state: State,
    holes: Holes,
    erased_at: Vec<u64>,
    noted: Vec<End>,
}

impl Auditor {
    /// Begins in front of the first record; `noted` are ends that the log once had.
    pub fn new(session: SessionId, noted: &[End]) -> Self {
        Self {
            verifier: Verifier::new(session),
            state: State::blank(session),
            holes: Holes::default(),
            erased_at: Vec::new(),
            noted: noted.to_vec(),
        }
    }

    /// Looks at the next record.
    ///
    /// # Errors
    ///
    /// What is wrong with it; nothing behind it can be looked at then.
    pub fn step(&mut self, record: &Record) -> Result<(), Damaged> {
        let next = self.end().tail + 1;
        if record.position > next {
            return Err(Damage::Missing.at(next));
        }
        let checked = self.verifier.check(record);
        checked.map_err(|Broken { position, what }| Damage::from(what).at(position))?;
        self.note(record)?;
        let folded = fold(&mut self.state, &record.entry());
        folded.map_err(|error| Damage::Fold(error.reason.into_owned()).at(record.position))?;
        let here = |noted: &End| noted.tail == record.position && noted.hash != record.hash;
        if self.noted.iter().any(here) {
            return Err(Damage::Rewritten.at(record.position));
        }
        Ok(())
    }

    /// Notes a body that was erased, or hears what was.
    fn note(&mut self, record: &Record) -> Result<(), Damaged> {
        if record.body.is_erased() {
            if self.erased_at.len() < NAMED {
                self.erased_at.push(record.position);
            }
            self.holes.found(record.position, record.body.text());
        } else if record.kind == Kind::Erased {
            let erased: Erased = serde_json::from_str(record.body.text())
                .map_err(|error| Damage::Unreadable(error.to_string()).at(record.position))?;
            self.holes.told(&erased)?;
        }
        Ok(())
    }

    /// Returns where the records that fit end.
    pub fn end(&self) -> End {
        self.verifier.end()
    }

    /// Checks that the log ends at `head`, and not before what was noted.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub fn finish(&self, head: End) -> Result<(), Damaged> {
        let end = self.end();
        if end.tail < head.tail {
            return Err(Damage::Cut(head.tail).at(end.tail + 1));
        }
        if end != head {
            return Err(Damage::Head.at(end.tail));
        }
        let noted = self.noted.iter().map(|noted| noted.tail).max().unwrap_or(0);
        if noted > end.tail {
            return Err(Damage::CutSince(noted).at(end.tail + 1));
        }
        match self.holes.untold() {
            Some(position) => Err(Damage::Untold.at(position)),
            None => Ok(()),
        }
    }

    /// Returns what the records fold to.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Makes the report.
    pub(crate) fn report(self, session: SessionId, compared: bool, found: Found) -> Audit {
        Audit {
            session,
            end: self.end(),
            erased: self.verifier.erased(),
            erased_at: self.erased_at,
            compared,
            found,
        }
    }
}
