//! Making every projection again from the records alone.

use super::{
    Postgres, Room, connect::Connection, insert, load::refold, pool, resources::Written,
    rows::array,
};
use crate::{
    ReadError,
    seal::End,
    stored::{bound, session_id},
};

/// Sessions looked up at a time.
const PAGE: usize = 100;

impl Postgres {
    /// Drops snapshots, states and everything else that is projected from the records, and folds
    /// them again, a session at a time; returns how many sessions there are.
    ///
    /// The store can be used meanwhile, by other nodes too.
    ///
    /// # Errors
    ///
    /// If a log cannot be folded by this version, or the database fails. Sessions before it are
    /// done.
    pub async fn rebuild(&self) -> Result<u64, ReadError> {
        self.pool
            .get()
            .await?
            .run("DELETE FROM snapshots", &[])
            .await?;
        let (mut last, mut count) = (0_i64, 0);
        loop {
            let text = "SELECT no FROM sessions WHERE no > $1 ORDER BY no LIMIT $2";
            let page = self.pool.get().await?;
            let page = page.rows(text, &[&last, &bound(PAGE)]).await?;
            if page.is_empty() {
                return Ok(count);
            }
            for row in page {
                last = row.try_get(0)?;
                let done: Result<(), crate::WriteError> =
                    pool::write!(self.pool, |tx| session(tx, last, &self.room));
                done?;
                count += 1;
            }
        }
    }
}

/// Makes the projections of one session again, while nobody appends to it.
async fn session(tx: &Connection, no: i64, room: &Room) -> Written<()> {
    let text = "SELECT id FROM sessions WHERE no = $1 AND NOT deleted FOR UPDATE";
    // One that is deleted may have lost records already; its row only waits to go.
    let Some(row) = tx.row(text, &[&no]).await? else {
        return Ok(Ok(()));
    };
    let id = session_id(row.try_get(0)?)?;
    room.heads.forget(id);
    for text in [
        "DELETE FROM threads WHERE session_no = $1",
        "DELETE FROM configs WHERE session_no = $1",
        "DELETE FROM hands WHERE session_no = $1",
    ] {
        tx.run(text, &[&no]).await?;
    }
    let state = refold(tx, no, id, &room.bodies).await?;
    let text = "SELECT hash FROM records WHERE session_no = $1 ORDER BY position DESC LIMIT 1";
    let hash: [u8; 32] = match tx.row(text, &[&no]).await? {
        Some(row) => array(row.try_get(0)?)?,
        None => End::of_nothing(id).hash,
    };
    insert::project(tx, no, &state, &hash).await?;
    Ok(Ok(()))
}
