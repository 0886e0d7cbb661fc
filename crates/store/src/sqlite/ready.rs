//! Threads that want a brain.

use outlast_protocol::{Micros, id::SessionId};
use rusqlite::{Connection, Row, params};

use super::fault::Fault;
use crate::{
    ReadError, Ready,
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
    "WHERE t.ready_at = 0 AND ?1 = ?1 AND ?3 = ?3 ORDER BY t.since LIMIT ?2"
);
/// Threads whose moment has come.
const DUE: &str = ready!(
    "t.ready_at",
    "WHERE t.ready_at > 0 AND t.ready_at <= ?1 AND ?3 = ?3 ORDER BY t.ready_at LIMIT ?2"
);
/// Threads whose moment was chosen by a clock that was set back since, or before the machine was
/// started: `?3` is a moment that no clock of today can have reached.
const SET_BACK: &str = ready!(
    "t.since",
    "WHERE t.ready_at > ?3 AND t.ready_at < 9223372036854775807 AND t.since > ?3 AND ?1 = ?1 \
     ORDER BY t.ready_at LIMIT ?2"
);
/// Threads whose holder is not a process that lives.
const LEFT: &str = ready!(
    "t.since",
    "LEFT JOIN processes p ON p.id = t.holder WHERE t.holder IS NOT NULL AND t.work = 1 \
     AND (p.id IS NULL OR p.dead = 1) AND ?1 = ?1 AND ?3 = ?3 ORDER BY t.since LIMIT ?2"
);

/// The next moment.
const NEXT: &str = "SELECT min(ready_at) FROM threads WHERE ready_at > ?1";

/// Returns threads that want a brain and have none, the longest waiting first.
pub(super) fn ready(
    connection: &Connection,
    now: Micros,
    limit: usize,
) -> Result<Vec<Ready>, ReadError> {
    let mut waiting = Vec::new();
    let beyond = now.after(outlast_session::SET_BACK).0;
    for text in [AT_ONCE, DUE, SET_BACK, LEFT] {
        let mut statement = connection.prepare_cached(text)?;
        let mut rows = statement.query(params![now.0, bound(limit), beyond])?;
        while let Some(row) = rows.next()? {
            waiting.push((row.get::<_, i64>(2)?, read(row)?));
        }
    }
    waiting.sort_by_key(|(since, _)| *since);
    Ok(waiting
        .into_iter()
        .map(|(_, ready)| ready)
        .take(limit)
        .collect())
}

fn read(row: &Row<'_>) -> Result<Ready, Fault> {
    let session = session_id(&row.get::<_, String>(0)?)?;
    let dead = row
        .get::<_, Option<String>>(3)?
        .as_deref()
        .map(process_id)
        .transpose()?;
    Ok(Ready {
        session,
        thread: row.get(1)?,
        dead,
    })
}

/// Returns the earliest moment after `now` from which a thread wants a brain.
pub(super) fn next(connection: &Connection, now: Micros) -> Result<Option<Micros>, ReadError> {
    let at: Option<i64> = connection
        .prepare_cached(NEXT)?
        .query_row([now.0], |row| row.get(0))?;
    Ok(at.map(Micros))
}

/// Sessions with a thread that is not at rest.
const UNFINISHED: &str = "SELECT id FROM sessions WHERE deleted = 0 AND no IN (\
     SELECT session_no FROM threads WHERE ready_at IS NOT NULL \
     UNION ALL SELECT session_no FROM threads WHERE holder IS NOT NULL \
     UNION ALL SELECT no FROM sessions WHERE deleted = 0 AND status IN ('running', 'rescheduling')) \
     LIMIT ?1";

/// Returns sessions with a thread that is not at rest.
pub(super) fn unfinished(
    connection: &Connection,
    limit: usize,
) -> Result<Vec<SessionId>, ReadError> {
    let mut statement = connection.prepare_cached(UNFINISHED)?;
    let mut rows = statement.query([bound(limit)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(session_id(&row.get::<_, String>(0)?)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connect;

    /// Whoever looks for work looks at work alone, however many sessions there are.
    #[test]
    fn looking_for_work_looks_at_work_alone() {
        let dir = tempfile::tempdir().unwrap();
        let connection = connect::writer(&dir.path().join("a.db")).unwrap();
        for (statement, index) in [
            (AT_ONCE, "threads_ready (ready_at=?)"),
            (DUE, "threads_ready (ready_at>? AND ready_at<?)"),
            (SET_BACK, "threads_ready (ready_at>? AND ready_at<?)"),
            (LEFT, "threads_holder"),
            (NEXT, "threads_ready (ready_at>?)"),
        ] {
            let plan = connect::plan(&connection, statement);
            assert!(plan.contains(index), "{statement}: {plan}");
        }
        let plan = connect::plan(&connection, UNFINISHED);
        for index in [
            "threads_ready",
            "threads_holder",
            "sessions_status",
            "PRIMARY KEY",
        ] {
            assert!(plan.contains(index), "{plan}");
        }
        for statement in [AT_ONCE, DUE] {
            let plan = connect::plan(&connection, statement);
            assert!(!plan.contains("TEMP B-TREE"), "{statement}: {plan}");
        }
    }
}
