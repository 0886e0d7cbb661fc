//! Sessions of which something runs out.

use outlast_protocol::{Micros, id::SessionId};
use rusqlite::{Connection, params};

use crate::{
    ReadError,
    stored::{bound, session_id},
};

/// Sessions of which something has run out.
const OVERDUE: &str = "SELECT s.id FROM threads t JOIN sessions s ON s.no = t.session_no \
                       WHERE t.deadline <= ?1 ORDER BY t.deadline LIMIT ?2";

/// The next moment.
const NEXT: &str = "SELECT min(deadline) FROM threads WHERE deadline > ?1";

/// Returns sessions of which something has run out, the longest ago first.
pub(super) fn overdue(
    connection: &Connection,
    now: Micros,
    limit: usize,
) -> Result<Vec<SessionId>, ReadError> {
    let mut statement = connection.prepare_cached(OVERDUE)?;
    let mut rows = statement.query(params![now.0, bound(limit)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(session_id(&row.get::<_, String>(0)?)?);
    }
    Ok(found)
}

/// Returns the earliest moment after `now` at which something runs out.
pub(super) fn next(connection: &Connection, now: Micros) -> Result<Option<Micros>, ReadError> {
    let at: Option<i64> = connection
        .prepare_cached(NEXT)?
        .query_row([now.0], |row| row.get(0))?;
    Ok(at.map(Micros))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connect;

    #[test]
    fn looking_for_what_runs_out_looks_at_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let connection = connect::writer(&dir.path().join("a.db")).unwrap();
        for (statement, index) in [
            (OVERDUE, "threads_deadline (deadline<?)"),
            (NEXT, "threads_deadline (deadline>?)"),
        ] {
            let plan = connect::plan(&connection, statement);
            assert!(
                plan.contains(index) && !plan.contains("TEMP B-TREE"),
                "{statement}: {plan}"
            );
        }
    }
}
