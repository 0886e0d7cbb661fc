//! Making every projection again from the records alone.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Room, Sqlite, fault::Fault, insert, load::refold, named, resources::Written};
use crate::{
    ReadError,
    heads::Head,
    seal::End,
    stored::{bound, session_id},
};

/// Sessions looked up at a time.
const PAGE: usize = 100;

impl Sqlite {
    /// Drops snapshots, states and everything else that is projected from the records, and folds
    /// them again, between batches; returns how many sessions there are.
    ///
    /// The store can be used meanwhile.
    ///
    /// # Errors
    ///
    /// If a log cannot be folded by this version, or the disk fails. Sessions before it are done.
    pub async fn rebuild(&self) -> Result<u64, ReadError> {
        self.background(|tx| {
            tx.execute("DELETE FROM snapshots", [])?;
            Ok(Ok(()))
        })
        .await?;
        let (mut last, mut count) = (0, 0);
        loop {
            let page = self
                .readers
                .read(move |connection| Ok(numbers(connection, last)?))
                .await?;
            let Some(end) = page.last() else {
                return Ok(count);
            };
            last = *end;
            for no in page {
                let room = self.room.clone();
                self.background(move |tx| session(tx, no, &room)).await?;
                count += 1;
            }
        }
    }
}

fn numbers(connection: &Connection, last: i64) -> Result<Vec<i64>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT no FROM sessions WHERE no > ?1 ORDER BY no LIMIT ?2")?;
    let rows = statement.query_map(params![last, bound(PAGE)], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Makes the projections of one session again.
fn session(transaction: &Connection, no: i64, room: &Arc<Room>) -> Written<()> {
    let id: Option<(String, bool)> = transaction
        .query_row(
            "SELECT id, deleted FROM sessions WHERE no = ?1",
            [no],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    // One that is deleted may have lost records already; its row only waits to go.
    let Some((id, false)) = id else {
        return Ok(Ok(()));
    };
    let session = session_id(&id)?;
    room.heads.forget(session);
    transaction.execute("DELETE FROM threads WHERE session_no = ?1", [no])?;
    transaction.execute("DELETE FROM configs WHERE session_no = ?1", [no])?;
    let state = refold(transaction, no, session, &room.loader)?;
    let hash = last_hash(transaction, no)?.unwrap_or_else(|| End::of_nothing(session).hash);
    let head = Head {
        no,
        state: Arc::new(state),
        hash,
    };
    insert::head(transaction, None, &head)?;
    insert::config(transaction, None, &head)?;
    insert::threads(transaction, None, &head)?;
    named::keep(transaction, None, &head)?;
    Ok(Ok(()))
}

fn last_hash(connection: &Connection, no: i64) -> Result<Option<[u8; 32]>, Fault> {
    let found = connection
        .prepare_cached(
            "SELECT hash FROM records WHERE session_no = ?1 ORDER BY position DESC LIMIT 1",
        )?
        .query_row([no], |row| row.get(0))
        .optional()?;
    Ok(found)
}
