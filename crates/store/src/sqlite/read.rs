//! Reading a log by position.

use outlast_protocol::{
    Micros,
    id::{EventId, SessionId},
};
use outlast_session::Kind;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    fault::Fault,
    rows::{kind_of, record_columns, stored},
};
use crate::{
    Order, ReadError, Slice,
    slices::{Page, is_picked},
    stored::{Stored, bound, integer, natural},
};

/// Returns number and tail of a session that is not deleted.
pub(super) fn tail(connection: &Connection, session: SessionId) -> Result<(i64, u64), ReadError> {
    let found = connection
        .prepare_cached("SELECT no, tail FROM sessions WHERE id = ?1 AND deleted = 0")?
        .query_row([session.to_string()], |row| {
            Ok((row.get(0)?, natural(row.get(1)?)))
        })
        .optional()?;
    found.ok_or_else(|| ReadError::NotFound(session.to_string()))
}

/// Reads a slice; bodies in blobs are still to be loaded.
pub(super) fn slice(
    connection: &Connection,
    session: SessionId,
    slice: &Slice,
) -> Result<Vec<Stored>, ReadError> {
    let (no, _) = tail(connection, session)?;
    let page = Page::of(slice);
    if is_picked(slice) {
        Ok(pick(connection, no, slice, page)?)
    } else {
        Ok(scan(connection, no, slice, page)?)
    }
}

/// Positions of events, arrivals or responses of one kind.
const OF_KIND: [&str; 2] = [
    "SELECT position FROM records INDEXED BY records_kind \
     WHERE session_no = ?1 AND kind = ?2 AND (event IS NOT NULL OR kind = 'x.response') \
     AND position > ?3 \
     AND (?5 IS NULL OR thread = ?5) ORDER BY position LIMIT ?4",
    "SELECT position FROM records INDEXED BY records_kind \
     WHERE session_no = ?1 AND kind = ?2 AND (event IS NOT NULL OR kind = 'x.response') \
     AND position < ?3 \
     AND (?5 IS NULL OR thread = ?5) ORDER BY position DESC LIMIT ?4",
];
/// Records along positions.
const ALONG: [&str; 2] = [
    concat!(
        "SELECT ",
        record_columns!(),
        " FROM records WHERE session_no = ?1 AND position > ?2 AND (?3 = 0 OR public = 1) \
         AND (?4 IS NULL OR thread = ?4) ORDER BY position"
    ),
    concat!(
        "SELECT ",
        record_columns!(),
        " FROM records WHERE session_no = ?1 AND position < ?2 AND (?3 = 0 OR public = 1) \
         AND (?4 IS NULL OR thread = ?4) ORDER BY position DESC"
    ),
];
/// The record at a position.
const AT: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM records WHERE session_no = ?1 AND position = ?2"
);
/// The records of an event, its place first.
const OF_EVENT: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM records WHERE session_no = ?1 AND event = ?2 ORDER BY public DESC LIMIT 1"
);

/// All records of an event.
const ALL_OF_EVENT: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM records WHERE session_no = ?1 AND event = ?2"
);

/// Returns the statement for a direction.
fn towards([forwards, backwards]: [&'static str; 2], order: Order) -> &'static str {
    match order {
        Order::Forwards => forwards,
        Order::Backwards => backwards,
    }
}

/// Walks along positions, and passes over what was not asked for.
fn scan(
    connection: &Connection,
    no: i64,
    slice: &Slice,
    mut page: Page,
) -> Result<Vec<Stored>, Fault> {
    let kinds: Vec<&str> = slice.kinds.iter().map(|kind| kind.text()).collect();
    let mut statement = connection.prepare_cached(towards(ALONG, slice.order))?;
    let mut rows = statement.query(params![no, integer(slice.from), slice.public, slice.thread])?;
    while page.has_room()
        && let Some(row) = rows.next()?
    {
        let wanted = kinds.is_empty() || kinds.contains(&kind_of(row)?);
        if wanted && !page.add(stored(row)?) {
            break;
        }
    }
    Ok(page.records)
}

/// Picks records of some kinds: each kind's positions come from an index, and are merged.
fn pick(
    connection: &Connection,
    no: i64,
    slice: &Slice,
    mut page: Page,
) -> Result<Vec<Stored>, Fault> {
    let mut kinds: Vec<Kind> = slice.kinds.clone();
    kinds.sort_unstable_by_key(|kind| kind.text());
    kinds.dedup();
    let mut positions = Vec::new();
    for kind in kinds {
        // Where only public records are asked for, a private kind has none.
        if kind.is_public() || !slice.public {
            positions.extend(of_kind(connection, no, kind, slice)?);
        }
    }
    positions.sort_unstable();
    if slice.order == Order::Backwards {
        positions.reverse();
    }
    let mut statement = connection.prepare_cached(AT)?;
    for position in positions {
        let mut rows = statement.query(params![no, position])?;
        if let Some(row) = rows.next()?
            && !page.add(stored(row)?)
        {
            break;
        }
    }
    Ok(page.records)
}

fn of_kind(connection: &Connection, no: i64, kind: Kind, slice: &Slice) -> Result<Vec<i64>, Fault> {
    let mut statement = connection.prepare_cached(towards(OF_KIND, slice.order))?;
    let (from, limit) = (integer(slice.from), bound(slice.limit));
    let found = statement
        .query_map(params![no, kind.text(), from, limit, slice.thread], |row| {
            row.get(0)
        })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns all records of an event.
pub(super) fn of_event(
    connection: &Connection,
    session: SessionId,
    event: EventId,
) -> Result<Vec<Stored>, ReadError> {
    let (no, _) = tail(connection, session)?;
    let mut statement = connection.prepare_cached(ALL_OF_EVENT)?;
    let mut rows = statement.query(params![no, event.to_string()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(stored(row)?);
    }
    Ok(found)
}

/// Finds the record of an event: its place, else its arrival.
pub(super) fn find(
    connection: &Connection,
    session: SessionId,
    event: EventId,
) -> Result<Stored, ReadError> {
    let (no, _) = tail(connection, session)?;
    let mut statement = connection.prepare_cached(OF_EVENT)?;
    let mut rows = statement.query(params![no, event.to_string()])?;
    match rows.next()? {
        Some(row) => Ok(stored(row)?),
        None => Err(ReadError::NotFound(event.to_string())),
    }
}

/// Returns the last position that is not later than `at`: times only rise along a log.
pub(super) fn position_at(
    connection: &Connection,
    session: SessionId,
    at: Micros,
) -> Result<u64, ReadError> {
    let (no, tail) = tail(connection, session)?;
    let mut statement = connection
        .prepare_cached("SELECT at FROM records WHERE session_no = ?1 AND position = ?2")?;
    let (mut low, mut high) = (0, tail);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let time: i64 = statement.query_row(params![no, integer(middle)], |row| row.get(0))?;
        if time <= at.0 {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connect;

    /// No read sorts, and none looks at more than its slice: each walks along an index.
    #[test]
    fn reads_walk_along_an_index() {
        let dir = tempfile::tempdir().unwrap();
        let connection = connect::writer(&dir.path().join("a.db")).unwrap();
        let [kind, kind_back] = OF_KIND;
        let [along, along_back] = ALONG;
        let cases = [
            (
                kind,
                "records_kind (session_no=? AND kind=? AND position>?)",
            ),
            (
                kind_back,
                "records_kind (session_no=? AND kind=? AND position<?)",
            ),
            (along, "(session_no=? AND position>?)"),
            (along_back, "(session_no=? AND position<?)"),
            (AT, "(session_no=? AND position=?)"),
            (OF_EVENT, "records_event (session_no=? AND event=?)"),
            (ALL_OF_EVENT, "records_event (session_no=? AND event=?)"),
        ];
        for (statement, index) in cases {
            let plan = connect::plan(&connection, statement);
            assert!(
                plan.contains(index) && !plan.contains("TEMP B-TREE"),
                "{statement}: {plan}"
            );
        }
    }
}
