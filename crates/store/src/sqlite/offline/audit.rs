//! One log, looked at from its first record to its head.

use std::io;

use outlast_protocol::id::SessionId;
use outlast_session::{Body, Record, chain};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{Offline, projected::Projected};
use crate::{
    Audit, Auditor, Damage, Damaged, End, Flaw, Found, ReadError,
    sqlite::{
        fault::Fault,
        rows::{record_columns, stored},
    },
    staging::is_away,
    stored::{Stored, bound, integer, natural, raw},
};

/// Records looked at between two looks at the database; a read never lasts longer than these take.
const PAGE: usize = 200;

/// What is done with a record that fits.
type Show<'a> = dyn FnMut(&Record) -> io::Result<()> + 'a;

/// A row as it is: readable, or damaged.
type Seen = Result<(Stored, bool), Damaged>;

/// What a page of a log is.
const ALONG: &str = concat!(
    "SELECT ",
    record_columns!(),
    ", public FROM records WHERE session_no = ?1 AND position > ?2 AND position <= ?3 \
     ORDER BY position LIMIT ?4"
);

impl Offline {
    /// Checks a log, everything that is projected from it, and that it reaches what was `noted`.
    ///
    /// It is checked up to the head that it has when this begins; what it holds in memory does not
    /// grow with the log.
    ///
    /// # Errors
    ///
    /// If the database or the blobs cannot be read; damage is no error.
    pub fn audit(&self, session: SessionId, noted: &[End]) -> Result<Audit, ReadError> {
        self.along(session, noted, &mut |_| Ok(()))
    }

    /// Does what [`audit`](Self::audit) does, and shows each record that fits, in order.
    ///
    /// # Errors
    ///
    /// As [`audit`](Self::audit), and what `show` fails with.
    pub fn along(
        &self,
        session: SessionId,
        noted: &[End],
        show: &mut Show<'_>,
    ) -> Result<Audit, ReadError> {
        let mut auditor = Auditor::new(session, noted);
        let Some(kept) = Projected::read(&self.connection, session)? else {
            return Ok(auditor.report(session, false, Found::Gone));
        };
        if kept.deleted() {
            let found = match self.tombstone(&kept)? {
                true => Found::Deleted,
                false => Found::Broken(Damage::Projection("that it is deleted").at(kept.end.tail)),
            };
            return Ok(auditor.report(session, false, found));
        }
        let walked = self.walk(session, &kept, &mut auditor, show)?;
        let done = walked.and_then(|()| kept.compare(&auditor));
        let (compared, found) = match done {
            Ok(compared) => (compared, Found::Whole),
            // Deleting it meanwhile takes its records away; that is no damage.
            Err(_) if self.end(session)?.is_none() => (false, Found::Deleted),
            Err(damaged) => (false, Found::Broken(damaged)),
        };
        Ok(auditor.report(session, compared, found))
    }

    /// Tells whether the log of a deleted session says so, as far as it is still there.
    fn tombstone(&self, kept: &Projected) -> Result<bool, ReadError> {
        let last: Option<String> = self
            .connection
            .prepare_cached("SELECT kind FROM records WHERE session_no = ?1 AND position = ?2")?
            .query_row(params![kept.no, integer(kept.end.tail)], |row| row.get(0))
            .optional()?;
        Ok(last.is_none_or(|kind| kind == outlast_session::Kind::Deleted.text()))
    }

    /// Goes along the records.
    fn walk(
        &self,
        session: SessionId,
        kept: &Projected,
        auditor: &mut Auditor,
        show: &mut Show<'_>,
    ) -> Result<Result<(), Damaged>, ReadError> {
        loop {
            let page = page(&self.connection, kept, auditor.end().tail)?;
            if page.is_empty() {
                return Ok(auditor.finish(kept.end).and_then(|()| kept.no_strays()));
            }
            for seen in page {
                if let Err(damaged) = self.look(session, seen, auditor, show)? {
                    return Ok(Err(damaged));
                }
            }
        }
    }

    /// Looks at one record.
    fn look(
        &self,
        session: SessionId,
        seen: Seen,
        auditor: &mut Auditor,
        show: &mut Show<'_>,
    ) -> Result<Result<(), Damaged>, ReadError> {
        let (stored, public) = match seen {
            Ok(seen) => seen,
            Err(damaged) => return Ok(Err(damaged)),
        };
        let (position, shown) = (stored.record.position, stored.record.kind.is_public());
        // A row in front of the gap says more than the one behind it.
        if position != auditor.end().tail + 1 {
            return Ok(auditor.step(&stored.record));
        }
        let record = match self.complete(session, stored)? {
            Ok(record) => record,
            Err(damage) => return Ok(Err(damage.at(position))),
        };
        if let Err(damaged) = auditor.step(&record) {
            return Ok(Err(damaged));
        }
        if public != shown {
            let hidden = Damage::Projection("whether clients see it");
            return Ok(Err(hidden.at(position)));
        }
        show(&record).map_err(|error| ReadError::Unavailable(error.to_string()))?;
        Ok(Ok(()))
    }

    /// Loads the body of a record from its blob, if it lies there.
    fn complete(
        &self,
        session: SessionId,
        stored: Stored,
    ) -> Result<Result<Record, Damage>, ReadError> {
        let Stored { mut record, blob } = stored;
        let Some(salt) = record.salt else {
            return Ok(Ok(record));
        };
        if !is_away(&record.body, Some(&salt)) {
            return Ok(Ok(record));
        }
        let Some(size) = blob else {
            return Ok(Err(Damage::Lost));
        };
        let bodies = &self.loader.bodies;
        let loading = bodies.bytes(session, &record.digest);
        let bytes = match self.loader.handle.block_on(loading) {
            Ok(bytes) => bytes,
            Err(outlast_blobs::Error::NotFound(_)) => return Ok(Err(Damage::Lost)),
            Err(error) => return Err(Fault::from(error).into()),
        };
        if u64::try_from(bytes.len()) != Ok(size) {
            return Ok(Err(Flaw::Body.into()));
        }
        let text = String::from_utf8(bytes.into()).ok();
        let Some(json) = text.and_then(|text| raw(text).ok()) else {
            return Ok(Err(Flaw::Body.into()));
        };
        record.body = Body::Json(json);
        Ok(Ok(record))
    }
}

/// Reads a few rows, as far as they can be read.
fn page(connection: &Connection, kept: &Projected, after: u64) -> Result<Vec<Seen>, ReadError> {
    let mut statement = connection.prepare_cached(ALONG)?;
    let (from, to) = (integer(after), integer(kept.end.tail));
    let mut rows = statement.query(params![kept.no, from, to, bound(PAGE)])?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        page.push(seen(row)?);
    }
    Ok(page)
}

/// Reads a row; what its columns hold may be anything.
fn seen(row: &Row<'_>) -> Result<Seen, Fault> {
    let position = natural(row.get(0)?);
    let read = stored(row).and_then(|stored| Ok((stored, row.get(12)?)));
    match read {
        Ok(seen) => Ok(Ok(seen)),
        Err(fault @ Fault::Sql(rusqlite::Error::SqliteFailure(..))) => Err(fault),
        Err(_) if has_other_body(row) => Ok(Err(Damage::from(Flaw::Body).at(position))),
        Err(fault) => Ok(Err(Damage::Unreadable(fault.to_string()).at(position))),
    }
}

/// Tells whether it is the body of an unreadable row that was changed.
fn has_other_body(row: &Row<'_>) -> bool {
    let (Ok(digest), Ok(salt)) = (row.get::<_, [u8; 32]>(7), row.get::<_, [u8; 16]>(9)) else {
        return false;
    };
    let body = row.get_ref(11).ok().and_then(|body| body.as_bytes().ok());
    let text = body.map(std::str::from_utf8);
    match text {
        Some(Ok(text)) => chain::digest(&salt, text) != digest,
        Some(Err(_)) => true,
        None => false,
    }
}
