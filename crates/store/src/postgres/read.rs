//! Reading a log by position.

use outlast_protocol::{
    Micros,
    id::{EventId, SessionId},
};

use super::{
    connect::Connection,
    rows::{record_columns, stored},
};
use crate::{
    Order, ReadError, Slice,
    slices::{Page, is_picked},
    stored::{Stored, bound, integer, natural},
};

/// Records that are asked for at first; a page that has room for more asks for more at a time.
const FEW: i64 = 64;
/// Records that are asked for at a time at most.
const MANY: i64 = 1_024;

/// Records along positions: session, from, public only, thread, kinds, limit.
const ALONG: [&str; 2] = [
    concat!(
        "SELECT ",
        record_columns!(),
        " FROM records r WHERE r.session_no = $1 AND r.position > $2 AND (NOT $3 OR r.public) \
         AND ($4::bigint IS NULL OR r.thread = $4) AND ($5::text[] IS NULL OR r.kind = ANY($5)) \
         ORDER BY r.position LIMIT $6"
    ),
    concat!(
        "SELECT ",
        record_columns!(),
        " FROM records r WHERE r.session_no = $1 AND r.position < $2 AND (NOT $3 OR r.public) \
         AND ($4::bigint IS NULL OR r.thread = $4) AND ($5::text[] IS NULL OR r.kind = ANY($5)) \
         ORDER BY r.position DESC LIMIT $6"
    ),
];
/// Records of some kinds: each kind's positions come from an index, and are merged.
const PICKED: [&str; 2] = [
    concat!(
        "SELECT ",
        record_columns!(),
        " FROM (SELECT p.position FROM unnest($5::text[]) AS k (kind) CROSS JOIN LATERAL \
         (SELECT x.position FROM records x WHERE x.session_no = $1 AND x.kind = k.kind \
         AND (x.event IS NOT NULL OR x.kind = 'x.response') AND x.position > $2 \
         AND (NOT $3 OR x.public) AND ($4::bigint IS NULL OR x.thread = $4) \
         ORDER BY x.position LIMIT $6) p ORDER BY p.position LIMIT $6) q \
         JOIN records r ON r.session_no = $1 AND r.position = q.position ORDER BY r.position"
    ),
    concat!(
        "SELECT ",
        record_columns!(),
        " FROM (SELECT p.position FROM unnest($5::text[]) AS k (kind) CROSS JOIN LATERAL \
         (SELECT x.position FROM records x WHERE x.session_no = $1 AND x.kind = k.kind \
         AND (x.event IS NOT NULL OR x.kind = 'x.response') AND x.position < $2 \
         AND (NOT $3 OR x.public) AND ($4::bigint IS NULL OR x.thread = $4) \
         ORDER BY x.position DESC LIMIT $6) p ORDER BY p.position DESC LIMIT $6) q \
         JOIN records r ON r.session_no = $1 AND r.position = q.position ORDER BY r.position DESC"
    ),
];
/// The records of an event, its place first.
const OF_EVENT: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM records r WHERE r.session_no = $1 AND r.event = $2 ORDER BY r.public DESC LIMIT 1"
);

/// All records of an event.
const ALL_OF_EVENT: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM records r WHERE r.session_no = $1 AND r.event = $2"
);

/// Returns number and tail of a session that is not deleted.
pub(super) async fn tail(
    connection: &Connection,
    session: SessionId,
) -> Result<(i64, u64), ReadError> {
    let text = "SELECT no, tail FROM sessions WHERE id = $1 AND NOT deleted";
    let found = connection.row(text, &[&session.to_string()]).await?;
    let row = found.ok_or_else(|| ReadError::NotFound(session.to_string()))?;
    Ok((row.try_get(0)?, natural(row.try_get(1)?)))
}

/// Reads a slice; bodies in blobs are still to be loaded.
///
/// What is read in several steps is one slice all the same: nothing is ever put in between.
pub(super) async fn slice(
    connection: &Connection,
    session: SessionId,
    slice: &Slice,
) -> Result<Vec<Stored>, ReadError> {
    let (no, _) = tail(connection, session).await?;
    let mut page = Page::of(slice);
    let (texts, kinds) = if is_picked(slice) {
        (PICKED, Some(picked(slice)))
    } else if slice.kinds.is_empty() {
        (ALONG, None)
    } else {
        let kinds = slice.kinds.iter().map(|kind| kind.text()).collect();
        (ALONG, Some(kinds))
    };
    let [forwards, backwards] = texts;
    let text = match slice.order {
        Order::Forwards => forwards,
        Order::Backwards => backwards,
    };
    let thread = slice.thread.map(i64::from);
    let (mut from, mut step) = (integer(slice.from), FEW);
    while page.has_room() {
        let wanted = step.min(bound(slice.limit.saturating_sub(page.records.len())));
        let values: [super::connect::Value<'_>; 6] =
            [&no, &from, &slice.public, &thread, &kinds, &wanted];
        let rows = connection.rows(text, &values).await?;
        for row in &rows {
            from = row.try_get(0)?;
            if !page.add(stored(row)?) {
                return Ok(page.records);
            }
        }
        if bound(rows.len()) < wanted {
            break;
        }
        step = (step * 4).min(MANY);
    }
    Ok(page.records)
}

/// Returns the kinds to pick, each once; where only public records are asked for, a private kind
/// has none.
fn picked(slice: &Slice) -> Vec<&'static str> {
    let wanted = slice.kinds.iter();
    let wanted = wanted.filter(|kind| kind.is_public() || !slice.public);
    let mut kinds: Vec<&str> = wanted.map(|kind| kind.text()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Returns all records of an event.
pub(super) async fn of_event(
    connection: &Connection,
    session: SessionId,
    event: EventId,
) -> Result<Vec<Stored>, ReadError> {
    let (no, _) = tail(connection, session).await?;
    let rows = connection
        .rows(ALL_OF_EVENT, &[&no, &event.to_string()])
        .await?;
    rows.iter().map(|row| Ok(stored(row)?)).collect()
}

/// Finds the record of an event: its place, else its arrival.
pub(super) async fn find(
    connection: &Connection,
    session: SessionId,
    event: EventId,
) -> Result<Stored, ReadError> {
    let (no, _) = tail(connection, session).await?;
    let found = connection
        .row(OF_EVENT, &[&no, &event.to_string()])
        .await?
        .ok_or_else(|| ReadError::NotFound(event.to_string()))?;
    Ok(stored(&found)?)
}

/// Returns the last position whose record is not later than `at`: times never go backwards within
/// a session, so half of what is left is looked at each time.
pub(super) async fn position_at(
    connection: &Connection,
    session: SessionId,
    at: Micros,
) -> Result<u64, ReadError> {
    let (no, tail) = tail(connection, session).await?;
    let (mut low, mut high) = (0, tail);
    let text = "SELECT at FROM records WHERE session_no = $1 AND position = $2";
    while low < high {
        let middle = high - (high - low) / 2;
        let row = connection.row(text, &[&no, &integer(middle)]).await?;
        let missing = || ReadError::Unreadable(format!("record {middle} is missing"));
        let time: i64 = row.ok_or_else(missing)?.try_get(0)?;
        if time <= at.0 {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(low)
}
