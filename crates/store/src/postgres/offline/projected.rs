//! What stands beside a log in a Postgres.

use std::collections::BTreeSet;

use outlast_protocol::id::SessionId;
use outlast_session::STATE_VERSION;
use tokio_postgres::Row;

use crate::{
    End,
    onlooker::{Columns, Holding, Projected},
    postgres::{
        connect::Connection,
        fault::Fault,
        load::{head_columns, parse},
        rows::{array, small},
    },
    stored::{integer, natural},
};

/// The head of a session, with what it is listed by.
const HEAD: &str = concat!(
    "SELECT ",
    head_columns!(),
    ", s.created, s.archived, s.deleted, s.status, s.agent, s.agent_version, s.environment, \
     s.epochs FROM sessions s LEFT JOIN configs c ON c.session_no = s.no WHERE s.id = $1"
);

/// Reads it; `None` if there is no such session.
pub(super) async fn read(
    connection: &Connection,
    session: SessionId,
) -> Result<Option<Projected>, Fault> {
    // One moment for all: nodes may be writing.
    connection
        .batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        .await?;
    let found = within(connection, session).await;
    connection.batch("COMMIT").await?;
    found
}

async fn within(connection: &Connection, session: SessionId) -> Result<Option<Projected>, Fault> {
    let Some(row) = connection.row(HEAD, &[&session.to_string()]).await? else {
        return Ok(None);
    };
    let (no, tail, version): (i64, i64, i64) = (row.try_get(0)?, row.try_get(2)?, row.try_get(4)?);
    Ok(Some(Projected {
        no,
        end: End {
            tail: natural(tail),
            hash: array(row.try_get(3)?)?,
        },
        known: version == i64::from(STATE_VERSION),
        state: parse(&row)?,
        columns: columns(&row)?,
        epochs: row.try_get(14)?,
        threads: threads(connection, no).await?,
        hands: hands(connection, no).await?,
        strays: strays(connection, no, natural(tail)).await?,
    }))
}

fn columns(row: &Row) -> Result<Columns, Fault> {
    Ok((
        row.try_get(7)?,
        row.try_get(8)?,
        row.try_get(9)?,
        row.try_get(10)?,
        row.try_get(11)?,
        small(row.try_get(12)?)?,
        row.try_get(13)?,
    ))
}

async fn threads(connection: &Connection, no: i64) -> Result<Vec<Holding>, Fault> {
    let text = "SELECT thread, epoch, attempts, holder, work, ready_at, deadline FROM threads \
                WHERE session_no = $1 ORDER BY thread";
    let rows = connection.rows(text, &[&no]).await?;
    let read = |row: &Row| -> Result<Holding, Fault> {
        Ok((
            small(row.try_get(0)?)?,
            row.try_get(1)?,
            small(row.try_get(2)?)?,
            row.try_get(3)?,
            row.try_get(4)?,
            row.try_get(5)?,
            row.try_get(6)?,
        ))
    };
    rows.iter().map(read).collect()
}

async fn hands(connection: &Connection, no: i64) -> Result<BTreeSet<String>, Fault> {
    let text = "SELECT incarnation FROM hands WHERE session_no = $1";
    let rows = connection.rows(text, &[&no]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Tells whether there are records outside of 1 to `tail`.
async fn strays(connection: &Connection, no: i64, tail: u64) -> Result<bool, Fault> {
    let text = "SELECT 1 FROM records WHERE session_no = $1 AND (position > $2 OR position < 1) \
                LIMIT 1";
    connection.exists(text, &[&no, &integer(tail)]).await
}
