//! One log, looked at from its first record to its head.

use outlast_protocol::id::SessionId;
use outlast_session::{Body, Kind, Record};

use super::{Projected, Seen, Show, Tables};
use crate::{
    Audit, Auditor, Damage, Damaged, End, Flaw, Found, ReadError,
    staging::is_away,
    stored::{Stored, raw},
};

/// Checks a log, and shows each record that fits.
pub(crate) fn along(
    tables: &impl Tables,
    session: SessionId,
    noted: &[End],
    show: &mut Show<'_>,
) -> Result<Audit, ReadError> {
    let mut auditor = Auditor::new(session, noted);
    let Some(kept) = tables.projected(session)? else {
        return Ok(auditor.report(session, false, Found::Gone));
    };
    if kept.deleted() {
        let found = match is_tombstone(tables, &kept)? {
            true => Found::Deleted,
            false => Found::Broken(Damage::Projection("that it is deleted").at(kept.end.tail)),
        };
        return Ok(auditor.report(session, false, found));
    }
    let walked = Walk {
        tables,
        session,
        kept: &kept,
    }
    .go(&mut auditor, show)?;
    let done = walked.and_then(|()| kept.compare(&auditor));
    let (compared, found) = match done {
        Ok(compared) => (compared, Found::Whole),
        // Deleting it meanwhile takes its records away; that is no damage.
        Err(_) if tables.end(session)?.is_none() => (false, Found::Deleted),
        Err(damaged) => (false, Found::Broken(damaged)),
    };
    Ok(auditor.report(session, compared, found))
}

/// Tells whether the log of a deleted session says so, as far as it is still there.
fn is_tombstone(tables: &impl Tables, kept: &Projected) -> Result<bool, ReadError> {
    let last = tables.kind(kept.no, kept.end.tail)?;
    Ok(last.is_none_or(|kind| kind == Kind::Deleted.text()))
}

/// A way along the records of a session.
struct Walk<'a, T> {
    tables: &'a T,
    session: SessionId,
    kept: &'a Projected,
}

impl<T: Tables> Walk<'_, T> {
    /// Goes to the head, or to the first record that does not fit.
    fn go(
        &self,
        auditor: &mut Auditor,
        show: &mut Show<'_>,
    ) -> Result<Result<(), Damaged>, ReadError> {
        loop {
            let page = self.tables.page(self.kept, auditor.end().tail)?;
            if page.is_empty() {
                let finished = auditor.finish(self.kept.end);
                return Ok(finished.and_then(|()| self.kept.no_strays()));
            }
            for seen in page {
                if let Err(damaged) = self.look(seen, auditor, show)? {
                    return Ok(Err(damaged));
                }
            }
        }
    }

    /// Looks at one record.
    fn look(
        &self,
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
        let record = match self.complete(stored)? {
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
    fn complete(&self, stored: Stored) -> Result<Result<Record, Damage>, ReadError> {
        let Stored { mut record, blob } = stored;
        if !is_away(&record.body, record.salt.as_ref()) {
            return Ok(Ok(record));
        }
        let Some(size) = blob else {
            return Ok(Err(Damage::Lost));
        };
        let Some(bytes) = self.tables.body(self.session, &record.digest)? else {
            return Ok(Err(Damage::Lost));
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
