//! One log, looked at from its first record to its head.

use outlast_protocol::id::SessionId;
use outlast_session::{Kind, Record};

use super::{Projected, Seen, Show, Tables};
use crate::{
    Audit, Auditor, Damage, Damaged, End, Flaw, Found, ReadError,
    staging::is_away,
    stored::{Stored, raw, shaped},
};

/// Checks a log, and shows each record that fits.
pub(crate) fn along(
    tables: &impl Tables,
    session: SessionId,
    noted: &[End],
    show: &mut Show<'_>,
) -> Result<Audit, ReadError> {
    let mut auditor = Auditor::new(session, noted);
    let Some(mut kept) = tables.projected(session)? else {
        return Ok(auditor.report(session, false, Found::Gone));
    };
    if kept.deleted() {
        let found = match is_tombstone(tables, &kept)? {
            true => Found::Deleted,
            false => Found::Broken(Damage::Projection("that it is deleted").at(kept.end.tail)),
        };
        return Ok(auditor.report(session, false, found));
    }
    let walked = loop {
        let walk = Walk {
            tables,
            session,
            kept: &kept,
        };
        let walked = walk.go(&mut auditor, show)?;
        match later(tables, session, &kept, &walked)? {
            Some(head) => kept = head,
            None => break walked,
        }
    };
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

/// Returns a later head, where a look ended at a body that was erased while it went on: a record
/// behind the head that it had then tells of it.
fn later(
    tables: &impl Tables,
    session: SessionId,
    kept: &Projected,
    walked: &Result<(), Damaged>,
) -> Result<Option<Projected>, ReadError> {
    let untold = matches!(walked, Err(damaged) if damaged.what == Damage::Untold);
    if !untold {
        return Ok(None);
    }
    let head = tables.projected(session)?;
    Ok(head.filter(|head| !head.deleted() && head.end.tail > kept.end.tail))
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
        show(&record).map_err(|error| ReadError::Unavailable(error.into()))?;
        Ok(Ok(()))
    }

    /// Loads the body of a record from its blob, if it lies there.
    fn complete(&self, stored: Stored) -> Result<Result<Record, Damage>, ReadError> {
        let Stored { record, blob } = stored;
        if !is_away(&record.body, record.salt.as_ref()) {
            return Ok(Ok(record));
        }
        let Some(size) = blob else {
            return Ok(Err(Damage::Lost));
        };
        let Some(bytes) = self.tables.body(self.session, &record.digest)? else {
            return self.erased_meanwhile(&record);
        };
        if u64::try_from(bytes.len()) != Ok(size) {
            return Ok(Err(Flaw::Body.into()));
        }
        let text = String::from_utf8(bytes.into()).ok();
        let Some(json) = text.and_then(|text| raw(text).ok()) else {
            return Ok(Err(Flaw::Body.into()));
        };
        Ok(match shaped(record.kind, record.version, json) {
            Ok(body) => Ok(Record { body, ..record }),
            Err(error) => Err(Damage::Unreadable(error.to_string())),
        })
    }

    /// Looks again at a record whose body is not where it was a moment ago.
    fn erased_meanwhile(&self, record: &Record) -> Result<Result<Record, Damage>, ReadError> {
        let page = self.tables.page(self.kept, record.position - 1)?;
        match page.into_iter().next() {
            Some(Ok((stored, _))) if stored.record.salt.is_none() => Ok(Ok(stored.record)),
            Some(Ok(_) | Err(_)) | None => Ok(Err(Damage::Lost)),
        }
    }
}
