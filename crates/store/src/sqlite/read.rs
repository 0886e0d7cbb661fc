//! Reading a log by position.

use outlast_protocol::{
    Micros,
    id::{EventId, SessionId},
};
use outlast_session::Kind;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use super::{
    fault::Fault,
    rows::{Stored, bound, integer, natural, record_columns},
};
use crate::{Order, ReadError, Slice};

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
    let page = Page {
        size: slice.bytes,
        limit: slice.limit,
        ..Page::default()
    };
    if slice.kinds.is_empty() {
        Ok(scan(connection, no, slice, page)?)
    } else {
        Ok(pick(connection, no, slice, page)?)
    }
}

/// Records until the page is full.
#[derive(Default)]
struct Page {
    records: Vec<Stored>,
    size: usize,
    limit: usize,
    used: usize,
}

impl Page {
    /// Adds a record, if there is room for it.
    fn add(&mut self, stored: Stored) -> bool {
        let size = stored.size();
        let full = self.size > 0 && self.used + size > self.size && !self.records.is_empty();
        if full || self.records.len() >= self.limit {
            return false;
        }
        self.used += size;
        self.records.push(stored);
        true
    }
}

/// Walks along positions.
fn scan(
    connection: &Connection,
    no: i64,
    slice: &Slice,
    mut page: Page,
) -> Result<Vec<Stored>, Fault> {
    let mut statement = match slice.order {
        Order::Forwards => connection.prepare_cached(concat!(
            "SELECT ",
            record_columns!(),
            " FROM records WHERE session_no = ?1 AND position > ?2 AND (?4 = 0 OR public = 1) \
             AND (?5 IS NULL OR thread = ?5) ORDER BY position LIMIT ?3"
        ))?,
        Order::Backwards => connection.prepare_cached(concat!(
            "SELECT ",
            record_columns!(),
            " FROM records WHERE session_no = ?1 AND position < ?2 AND (?4 = 0 OR public = 1) \
             AND (?5 IS NULL OR thread = ?5) ORDER BY position DESC LIMIT ?3"
        ))?,
    };
    let (from, limit) = (integer(slice.from), bound(slice.limit));
    let mut rows = statement.query(params![no, from, limit, slice.public, slice.thread])?;
    while let Some(row) = rows.next()? {
        if !page.add(Stored::read(row)?) {
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
        if kind.is_public() || !slice.public {
            positions.extend(of_kind(connection, no, kind, slice)?);
        }
    }
    positions.sort_unstable();
    if slice.order == Order::Backwards {
        positions.reverse();
    }
    let mut statement = at(connection)?;
    for position in positions {
        let mut rows = statement.query(params![no, position])?;
        if let Some(row) = rows.next()?
            && !page.add(Stored::read(row)?)
        {
            break;
        }
    }
    Ok(page.records)
}

fn of_kind(connection: &Connection, no: i64, kind: Kind, slice: &Slice) -> Result<Vec<i64>, Fault> {
    let mut statement = match slice.order {
        Order::Forwards => connection.prepare_cached(
            "SELECT position FROM records INDEXED BY records_kind \
             WHERE session_no = ?1 AND kind = ?2 AND position > ?3 \
             AND (?5 IS NULL OR thread = ?5) ORDER BY position LIMIT ?4",
        )?,
        Order::Backwards => connection.prepare_cached(
            "SELECT position FROM records INDEXED BY records_kind \
             WHERE session_no = ?1 AND kind = ?2 AND position < ?3 \
             AND (?5 IS NULL OR thread = ?5) ORDER BY position DESC LIMIT ?4",
        )?,
    };
    let (from, limit) = (integer(slice.from), bound(slice.limit));
    let found = statement
        .query_map(params![no, kind.text(), from, limit, slice.thread], |row| {
            row.get(0)
        })?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn at(connection: &Connection) -> rusqlite::Result<CachedStatement<'_>> {
    connection.prepare_cached(concat!(
        "SELECT ",
        record_columns!(),
        " FROM records WHERE session_no = ?1 AND position = ?2"
    ))
}

/// Finds the record of an event: its place, else its arrival.
pub(super) fn find(
    connection: &Connection,
    session: SessionId,
    event: EventId,
) -> Result<Stored, ReadError> {
    let (no, _) = tail(connection, session)?;
    let mut statement = connection.prepare_cached(concat!(
        "SELECT ",
        record_columns!(),
        " FROM records WHERE session_no = ?1 AND event = ?2 ORDER BY public DESC LIMIT 1"
    ))?;
    let mut rows = statement.query(params![no, event.to_string()])?;
    match rows.next()? {
        Some(row) => Ok(Stored::read(row)?),
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
