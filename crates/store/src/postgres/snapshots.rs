//! Contexts that harnesses keep, and the hands that sessions name.

use std::collections::HashMap;

use outlast_protocol::id::{IncarnationId, SessionId};

use super::{connect::Connection, fault::Fault, read::tail};
use crate::{
    ReadError, Snapshot,
    stored::{integer, natural, session_id},
};

/// Keeps a snapshot, unless a newer one is there; tells whether its session is.
pub(super) async fn save(tx: &Connection, snapshot: &Snapshot) -> Result<bool, Fault> {
    let text = "WITH s AS (SELECT no FROM sessions WHERE id = $1 AND NOT deleted), kept AS \
                (INSERT INTO snapshots (session_no, thread, name, position, body) \
                SELECT no, $2, $3, $4, $5 FROM s WHERE NOT EXISTS (SELECT 1 FROM records r \
                WHERE r.session_no = s.no AND r.position > $4 AND r.kind = 'x.erased') \
                ON CONFLICT (session_no, thread, name) DO UPDATE \
                SET position = excluded.position, body = excluded.body \
                WHERE excluded.position >= snapshots.position) SELECT no FROM s";
    let values: [super::connect::Value<'_>; 5] = [
        &snapshot.session.to_string(),
        &i64::from(snapshot.thread),
        &snapshot.name,
        &integer(snapshot.position),
        &snapshot.body,
    ];
    tx.exists(text, &values).await
}

/// Returns the newest snapshot under a name.
pub(super) async fn newest(
    connection: &Connection,
    session: SessionId,
    thread: u32,
    name: &str,
) -> Result<Option<Snapshot>, ReadError> {
    let (no, _) = tail(connection, session).await?;
    let text = "SELECT position, body FROM snapshots \
                WHERE session_no = $1 AND thread = $2 AND name = $3";
    let found = connection
        .row(text, &[&no, &i64::from(thread), &name])
        .await?;
    let Some(row) = found else { return Ok(None) };
    Ok(Some(Snapshot {
        session,
        thread,
        name: name.to_owned(),
        position: natural(row.try_get(0)?),
        body: row.try_get(1)?,
    }))
}

/// Returns those hands that a session names, with that session.
pub(super) async fn named(
    connection: &Connection,
    hands: &[IncarnationId],
) -> Result<Vec<(IncarnationId, SessionId)>, ReadError> {
    let ids: Vec<String> = hands.iter().map(ToString::to_string).collect();
    let text = "SELECT h.incarnation, s.id FROM hands h JOIN sessions s ON s.no = h.session_no \
                WHERE h.incarnation = ANY($1)";
    let mut known = HashMap::new();
    for row in connection.rows(text, &[&ids]).await? {
        let hand: String = row.try_get(0)?;
        known.insert(hand, session_id(row.try_get(1)?)?);
    }
    let hands = hands.iter().zip(&ids);
    let named = hands.filter_map(|(hand, id)| known.get(id).map(|session| (*hand, *session)));
    Ok(named.collect())
}
