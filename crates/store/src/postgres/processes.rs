//! Statements for the processes that take leases.

use outlast_protocol::{Micros, id::ProcessId};

use super::{connect::Connection, fault::Fault, resources::Written};
use crate::{
    Process, Pulse, ReadError,
    stored::{natural, process_id},
};

/// Registers a process; all others of its node are dead, for whoever holds its data directory is
/// alone there.
pub(super) async fn register(
    tx: &Connection,
    process: ProcessId,
    node: &str,
    at: Micros,
) -> Written<()> {
    let id = process.to_string();
    let text = "UPDATE processes SET dead = true WHERE id <> $1 AND node = $2 AND NOT dead";
    tx.run(text, &[&id, &node]).await?;
    // The dead are remembered for as long as a thread names them.
    let text = "DELETE FROM processes WHERE dead AND id <> $1 AND NOT EXISTS \
                (SELECT 1 FROM threads WHERE holder = processes.id)";
    tx.run(text, &[&id]).await?;
    let text = "INSERT INTO processes (id, node, at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    tx.run(text, &[&id, &node, &at.0]).await?;
    Ok(Ok(()))
}

/// Notes that a process lives, unless it was declared dead.
pub(super) async fn beat(tx: &Connection, process: ProcessId) -> Result<Pulse, Fault> {
    let text = "UPDATE processes SET beats = beats + 1 WHERE id = $1 AND NOT dead";
    Ok(match tx.run(text, &[&process.to_string()]).await? {
        0 => Pulse::Dead,
        _ => Pulse::Alive,
    })
}

/// Declares a process dead.
pub(super) async fn declare(tx: &Connection, process: ProcessId) -> Result<(), Fault> {
    let text = "UPDATE processes SET dead = true WHERE id = $1";
    tx.run(text, &[&process.to_string()]).await?;
    Ok(())
}

/// Lists the processes that are known.
pub(super) async fn list(connection: &Connection) -> Result<Vec<Process>, ReadError> {
    let text = "SELECT id, node, beats, dead FROM processes ORDER BY at, id";
    let mut found = Vec::new();
    for row in connection.rows(text, &[]).await? {
        found.push(Process {
            id: process_id(row.try_get(0)?)?,
            node: row.try_get(1)?,
            beats: natural(row.try_get(2)?),
            dead: row.try_get(3)?,
        });
    }
    Ok(found)
}
