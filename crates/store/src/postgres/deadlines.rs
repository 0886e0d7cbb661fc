//! Sessions of which something runs out.

use outlast_protocol::{Micros, id::SessionId};

use super::connect::Connection;
use crate::{
    ReadError,
    stored::{bound, session_id},
};

/// Returns sessions of which something has run out, the longest ago first.
pub(super) async fn overdue(
    connection: &Connection,
    now: Micros,
    limit: usize,
) -> Result<Vec<SessionId>, ReadError> {
    let text = "SELECT s.id FROM threads t JOIN sessions s ON s.no = t.session_no \
                WHERE t.deadline <= $1 ORDER BY t.deadline LIMIT $2";
    let rows = connection.rows(text, &[&now.0, &bound(limit)]).await?;
    rows.iter()
        .map(|row| Ok(session_id(row.try_get(0)?)?))
        .collect()
}

/// Returns the earliest moment after `now` at which something runs out.
pub(super) async fn next(
    connection: &Connection,
    now: Micros,
) -> Result<Option<Micros>, ReadError> {
    let text = "SELECT min(deadline) FROM threads WHERE deadline > $1";
    let row = connection.row(text, &[&now.0]).await?;
    let at: Option<i64> = row.map_or(Ok(None), |row| row.try_get(0))?;
    Ok(at.map(Micros))
}
