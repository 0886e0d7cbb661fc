//! Records as their rows have them, damaged ones among them.

use outlast_session::chain;
use rusqlite::{Connection, Row, params};

use crate::{
    Damage, Flaw, ReadError,
    onlooker::{Projected, Seen},
    sqlite::{
        fault::Fault,
        rows::{record_columns, stored},
    },
    stored::{bound, integer, natural},
};

/// Records looked at between two looks at the database; a read never lasts longer than these take.
const PAGE: usize = 200;

/// What a page of a log is.
const ALONG: &str = concat!(
    "SELECT ",
    record_columns!(),
    ", public FROM records WHERE session_no = ?1 AND position > ?2 AND position <= ?3 \
     ORDER BY position LIMIT ?4"
);

/// Reads a few rows, as far as they can be read.
pub(super) fn page(
    connection: &Connection,
    kept: &Projected,
    after: u64,
) -> Result<Vec<Seen>, ReadError> {
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
