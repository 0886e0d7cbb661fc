//! Which hands the sessions name.

use outlast_protocol::id::IncarnationId;
use outlast_session::State;
use rusqlite::Connection;

use super::fault::Fault;
use crate::{ReadError, heads::Head};

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

/// Returns those that a session names.
pub(super) fn named(
    connection: &Connection,
    hands: &[IncarnationId],
) -> Result<Vec<IncarnationId>, ReadError> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM hands WHERE incarnation = ?1")?;
    let mut found = Vec::new();
    for hand in hands {
        if statement.exists([hand.to_string()])? {
            found.push(*hand);
        }
    }
    Ok(found)
}
