//! Heads as the tables have them; where what is stored is of another version, as the log has them.

use std::sync::Arc;

use outlast_protocol::id::SessionId;
use outlast_session::{STATE_VERSION, State, fold};
use tokio_postgres::Row;

use super::{
    connect::Connection,
    fault::Fault,
    rows::{array, record_columns, stored},
};
use crate::{
    bodies::Bodies,
    heads::Head,
    staging::is_away,
    stored::{Stored, natural, session_id, shaped},
};

/// The columns that [`head`] wants, of `sessions s` joined with `configs c`.
macro_rules! head_columns {
    () => {
        "s.no, s.id, s.tail, s.hash, s.state_version, s.state, c.body"
    };
}
pub(super) use head_columns;

/// Records that are folded at a time.
const PAGE: i64 = 500;

/// The heads of some sessions, deleted or not.
const HEADS: &str = concat!(
    "SELECT ",
    head_columns!(),
    " FROM sessions s LEFT JOIN configs c ON c.session_no = s.no WHERE s.id = ANY($1)"
);
/// The head of a session, and nobody moves it meanwhile.
pub(super) const LOCKED: &str = concat!(
    "SELECT ",
    head_columns!(),
    " FROM sessions s LEFT JOIN configs c ON c.session_no = s.no WHERE s.id = $1 FOR UPDATE OF s"
);
const RECORDS: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM records r WHERE r.session_no = $1 AND r.position > $2 ORDER BY r.position LIMIT $3"
);

/// Returns the heads of those sessions that are there; one that cannot be read is no harm to others.
pub(super) async fn heads(
    connection: &Connection,
    sessions: &[SessionId],
    bodies: &Bodies,
) -> Result<Vec<(SessionId, Result<Head, Fault>)>, Fault> {
    let ids: Vec<String> = sessions.iter().map(ToString::to_string).collect();
    let mut found = Vec::with_capacity(ids.len());
    for row in connection.rows(HEADS, &[&ids]).await? {
        let session = session_id(row.try_get(1)?)?;
        match head(connection, &row, bodies).await {
            Err(fault @ Fault::Sql(_)) => return Err(fault),
            read => found.push((session, read)),
        }
    }
    Ok(found)
}

/// Returns the head of a session, deleted or not.
pub(super) async fn one(
    connection: &Connection,
    session: SessionId,
    bodies: &Bodies,
) -> Result<Option<Head>, Fault> {
    let found = heads(connection, &[session], bodies).await?;
    found.into_iter().next().map(|(_, head)| head).transpose()
}

/// Reads a head, or folds it again where it was kept in another shape or not at all.
pub(super) async fn head(
    connection: &Connection,
    row: &Row,
    bodies: &Bodies,
) -> Result<Head, Fault> {
    let no = row.try_get(0)?;
    let state = match parse(row)? {
        Some(state) => state,
        None => refold(connection, no, session_id(row.try_get(1)?)?, bodies).await?,
    };
    Ok(Head {
        no,
        state: Arc::new(state),
        hash: array(row.try_get(3)?)?,
    })
}

/// Reads the state; `None` if it is of another version, damaged, or not that of the tail.
pub(super) fn parse(row: &Row) -> Result<Option<State>, Fault> {
    let (tail, version): (i64, i64) = (row.try_get(2)?, row.try_get(4)?);
    if version != i64::from(STATE_VERSION) {
        return Ok(None);
    }
    let (text, config): (&str, Option<&str>) = (row.try_get(5)?, row.try_get(6)?);
    let state: Option<State> = serde_json::from_str(text).ok();
    let config = config.and_then(|config| serde_json::from_str(config).ok());
    Ok(state.zip(config).and_then(|(mut state, config)| {
        state.config = Some(Arc::new(config));
        (state.tail == natural(tail)).then_some(state)
    }))
}

/// Folds a whole log.
pub(super) async fn refold(
    connection: &Connection,
    no: i64,
    session: SessionId,
    bodies: &Bodies,
) -> Result<State, Fault> {
    let mut state = State::blank(session);
    let mut last = 0_i64;
    loop {
        let rows = connection.rows(RECORDS, &[&no, &last, &PAGE]).await?;
        for row in &rows {
            last = row.try_get(0)?;
            let stored = complete(session, stored(row)?, bodies).await?;
            fold(&mut state, &stored.record.entry())
                .map_err(|error| Fault::Unreadable(error.to_string()))?;
        }
        if rows.is_empty() {
            return Ok(state);
        }
    }
}

/// Loads a body that lies in a blob.
pub(super) async fn complete(
    session: SessionId,
    mut stored: Stored,
    bodies: &Bodies,
) -> Result<Stored, Fault> {
    let record = &mut stored.record;
    if is_away(&record.body, record.salt.as_ref()) {
        let body = bodies.get(session, &record.digest).await?;
        record.body = shaped(record.kind, record.version, body)?;
    }
    Ok(stored)
}
