//! What stands beside a log in the database file.

use std::collections::BTreeSet;

use outlast_protocol::id::SessionId;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::{
    End, ReadError,
    onlooker::{Columns, Holding, Projected},
    sqlite::load::{Kept, head_columns},
    stored::{integer, natural},
};

/// Reads it; `None` if there is no such session.
pub(super) fn read(
    connection: &Connection,
    session: SessionId,
) -> Result<Option<Projected>, ReadError> {
    // One moment for all: a server may be writing.
    let moment = connection.unchecked_transaction()?;
    let found = moment
        .prepare_cached(concat!(
            "SELECT ",
            head_columns!(),
            ", s.created, s.archived, s.deleted, s.status, s.agent, s.agent_version, \
             s.environment FROM sessions s LEFT JOIN configs c ON c.session_no = s.no \
             WHERE s.id = ?1"
        ))?
        .query_row([session.to_string()], |row| {
            let (no, tail) = (row.get(0)?, natural(row.get(2)?));
            let end = End {
                tail,
                hash: row.get(3)?,
            };
            Ok((no, end, Kept::read(row)?, columns(row)?))
        })
        .optional()?;
    let Some((no, end, kept, columns)) = found else {
        return Ok(None);
    };
    Ok(Some(Projected {
        no,
        end,
        known: kept.is_of_this_version(),
        state: kept.parse(),
        columns,
        epochs: None,
        threads: threads(&moment, no)?,
        hands: hands(&moment, no)?,
        strays: strays(&moment, no, end.tail)?,
    }))
}

fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok((
        row.get(7)?,
        row.get(8)?,
        row.get(9)?,
        row.get(10)?,
        row.get(11)?,
        row.get(12)?,
        row.get(13)?,
    ))
}

fn threads(connection: &Connection, no: i64) -> Result<Vec<Holding>, ReadError> {
    let mut statement = connection.prepare_cached(
        "SELECT thread, epoch, attempts, holder, work, ready_at, deadline FROM threads \
         WHERE session_no = ?1 ORDER BY thread",
    )?;
    let rows = statement.query_map([no], |row| {
        Ok((
            row.get(0)?,
            row.get(1)?,
            row.get(2)?,
            row.get(3)?,
            row.get(4)?,
            row.get(5)?,
            row.get(6)?,
        ))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn hands(connection: &Connection, no: i64) -> Result<BTreeSet<String>, ReadError> {
    let mut statement =
        connection.prepare_cached("SELECT incarnation FROM hands WHERE session_no = ?1")?;
    let rows = statement.query_map([no], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Tells whether there are records outside of 1 to `tail`.
fn strays(connection: &Connection, no: i64, tail: u64) -> Result<bool, ReadError> {
    let found = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM records WHERE session_no = ?1 AND position > ?2) \
             OR EXISTS (SELECT 1 FROM records WHERE session_no = ?1 AND position < 1)",
        )?
        .query_row(params![no, integer(tail)], |row| row.get(0))?;
    Ok(found)
}
