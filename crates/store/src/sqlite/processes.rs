//! Statements for the processes that take leases.

use outlast_protocol::{Micros, id::ProcessId};
use rusqlite::{Connection, params};

use super::{fault::Fault, resources::Written};
use crate::{
    Process, Pulse, ReadError,
    stored::{natural, process_id},
};

/// Registers a process; all others are dead, for this store has one process at a time.
pub(super) fn register(transaction: &Connection, process: ProcessId, at: Micros) -> Written<()> {
    let id = process.to_string();
    transaction.execute("UPDATE processes SET dead = 1 WHERE id <> ?1", [&id])?;
    // The dead are remembered for as long as a thread names them.
    transaction.execute(
        "DELETE FROM processes WHERE dead = 1 AND id <> ?1 AND id NOT IN \
         (SELECT holder FROM threads WHERE holder IS NOT NULL)",
        [&id],
    )?;
    transaction.execute(
        "INSERT INTO processes (id, at) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING",
        params![id, at.0],
    )?;
    Ok(Ok(()))
}

/// Notes that a process lives, unless it was declared dead.
pub(super) fn beat(transaction: &Connection, process: ProcessId) -> Written<Pulse> {
    let found = transaction
        .prepare_cached("UPDATE processes SET beats = beats + 1 WHERE id = ?1 AND dead = 0")?
        .execute([process.to_string()])?;
    Ok(Ok(if found == 0 {
        Pulse::Dead
    } else {
        Pulse::Alive
    }))
}

/// Declares a process dead.
pub(super) fn declare(transaction: &Connection, process: ProcessId) -> Written<()> {
    transaction
        .prepare_cached("UPDATE processes SET dead = 1 WHERE id = ?1")?
        .execute([process.to_string()])?;
    Ok(Ok(()))
}

/// Lists the processes that are known.
pub(super) fn list(connection: &Connection) -> Result<Vec<Process>, ReadError> {
    let mut statement =
        connection.prepare_cached("SELECT id, beats, dead FROM processes ORDER BY at, id")?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Process {
            id: process_id(&row.get::<_, String>(0)?).map_err(Fault::from)?,
            node: String::new(),
            beats: natural(row.get(1)?),
            dead: row.get(2)?,
        });
    }
    Ok(found)
}
