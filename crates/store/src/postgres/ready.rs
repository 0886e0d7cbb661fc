//! Threads that want a brain.

use outlast_protocol::{Micros, id::SessionId};

use super::connect::Connection;
use crate::{
    ReadError, Ready,
    postgres::rows::small,
    stored::{bound, process_id, session_id},
};

/// The columns of every query here: session, thread, since when, holder.
macro_rules! ready {
    ($since:literal, $rest:literal) => {
        concat!(
            "SELECT s.id, t.thread, ",
            $since,
            ", t.holder FROM threads t JOIN sessions s ON s.no = t.session_no ",
            $rest
        )
    };
}

/// Threads that want one now.
const AT_ONCE: &str = ready!(
    "t.since",
    "WHERE t.ready_at = 0 AND $1::bigint IS NOT NULL ORDER BY t.since LIMIT $2"
);
/// Threads whose moment has come.
const DUE: &str = ready!(
    "t.ready_at",
    "WHERE t.ready_at > 0 AND t.ready_at <= $1 ORDER BY t.ready_at LIMIT $2"
);
/// Threads whose moment was chosen by a clock that was set back since: `$1` is a moment that no clock
/// of today can have reached.
const SET_BACK: &str = ready!(
    "t.since",
    "WHERE t.ready_at > $1::bigint AND t.ready_at < 9223372036854775807 AND t.since > $1::bigint \
     ORDER BY t.ready_at LIMIT $2"
);
/// Threads whose holder is not a process that lives.
const LEFT: &str = ready!(
    "t.since",
    "LEFT JOIN processes p ON p.id = t.holder WHERE t.holder IS NOT NULL AND t.work \
     AND (p.id IS NULL OR p.dead) AND $1::bigint IS NOT NULL ORDER BY t.since LIMIT $2"
);

/// Returns threads that want a brain and have none, the longest waiting first.
pub(super) async fn ready(
    connection: &Connection,
    now: Micros,
    limit: usize,
) -> Result<Vec<Ready>, ReadError> {
    let mut waiting = Vec::new();
    let beyond = now.after(outlast_session::SET_BACK);
    for (text, at) in [(AT_ONCE, now), (DUE, now), (SET_BACK, beyond), (LEFT, now)] {
        for row in connection.rows(text, &[&at.0, &bound(limit)]).await? {
            let holder: Option<&str> = row.try_get(3)?;
            let ready = Ready {
                session: session_id(row.try_get(0)?)?,
                thread: small(row.try_get(1)?)?,
                dead: holder.map(process_id).transpose()?,
            };
            waiting.push((row.try_get::<_, i64>(2)?, ready));
        }
    }
    waiting.sort_by_key(|(since, _)| *since);
    let waiting = waiting.into_iter().map(|(_, ready)| ready);
    Ok(waiting.take(limit).collect())
}

/// Returns the earliest moment after `now` from which a thread wants a brain.
pub(super) async fn next(
    connection: &Connection,
    now: Micros,
) -> Result<Option<Micros>, ReadError> {
    let text = "SELECT min(ready_at) FROM threads WHERE ready_at > $1";
    let at = connection.row(text, &[&now.0]).await?;
    let at: Option<i64> = at.map_or(Ok(None), |row| row.try_get(0))?;
    Ok(at.map(Micros))
}

/// Returns sessions with a thread that is not at rest.
pub(super) async fn unfinished(
    connection: &Connection,
    limit: usize,
) -> Result<Vec<SessionId>, ReadError> {
    let text = "SELECT id FROM sessions WHERE NOT deleted AND no IN (\
                SELECT session_no FROM threads WHERE ready_at IS NOT NULL \
                UNION SELECT session_no FROM threads WHERE holder IS NOT NULL \
                UNION SELECT no FROM sessions WHERE NOT deleted \
                AND status IN ('running', 'rescheduling')) LIMIT $1";
    let mut found = Vec::new();
    for row in connection.rows(text, &[&bound(limit)]).await? {
        found.push(session_id(row.try_get(0)?)?);
    }
    Ok(found)
}
