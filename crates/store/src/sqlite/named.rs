//! Which hands the sessions name.

use outlast_protocol::id::{IncarnationId, SessionId};
use outlast_session::State;
use rusqlite::{Connection, OptionalExtension as _};

use super::fault::Fault;
use crate::{ReadError, heads::Head, stored::session_id};

/// Keeps which hands a session names, where that changed.
pub(super) fn keep(
    transaction: &Connection,
    before: Option<&State>,
    after: &Head,
) -> Result<(), Fault> {
    let now = after.state.named_hands();
    if before.is_some_and(|before| before.named_hands() == now) {
        return Ok(());
    }
    transaction
        .prepare_cached("DELETE FROM hands WHERE session_no = ?1")?
        .execute([after.no])?;
    for incarnation in now {
        transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO hands (incarnation, session_no) VALUES (?1, ?2)",
            )?
            .execute((incarnation.to_string(), after.no))?;
    }
    Ok(())
}

/// Returns those that a session names, with that session.
pub(super) fn named(
    connection: &Connection,
    hands: &[IncarnationId],
) -> Result<Vec<(IncarnationId, SessionId)>, ReadError> {
    let mut statement = connection.prepare_cached(
        "SELECT s.id FROM hands h JOIN sessions s ON s.no = h.session_no WHERE h.incarnation = ?1",
    )?;
    let mut found = Vec::new();
    for hand in hands {
        let session = statement
            .query_row([hand.to_string()], |row| row.get::<_, String>(0))
            .optional()?;
        if let Some(session) = session {
            found.push((*hand, session_id(&session)?));
        }
    }
    Ok(found)
}
