//! What was sent before the connection broke: nobody knows whether it was committed, until it was
//! looked for.

use std::time::Duration;

use tokio::time::sleep;

use super::{Lane, plan::Plan};
use crate::{
    postgres::{
        connect::{Backend, Connection},
        fault::Fault,
    },
    stored::integer,
};

/// How often it is looked whether a session of the database has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A plan that was sent and not answered.
#[derive(Debug)]
pub(super) struct Doubt {
    pub(super) plan: Plan,
    /// Who was to carry it out.
    pub(super) backend: Backend,
}

impl Lane {
    /// Finds out what became of what was sent.
    ///
    /// The session that had it may still be at work, even on bytes that it has not read yet; so it
    /// is ended first, and only what stands in the log after its end counts.
    pub(super) async fn settle(&mut self, connection: &Connection) -> Result<(), Fault> {
        while let Some(doubt) = self.doubts.last() {
            gone(connection, &doubt.backend).await?;
            let stands = stands(connection, &doubt.plan).await?;
            let Some(Doubt { plan, .. }) = self.doubts.pop() else {
                return Ok(());
            };
            match stands {
                Some(no) => {
                    tracing::info!("an append whose answer was lost stands in the log");
                    self.tell(plan, no);
                }
                None => self.again(plan.group),
            }
        }
        Ok(())
    }
}

/// Waits until a session of the database is no more.
async fn gone(connection: &Connection, backend: &Backend) -> Result<(), Fault> {
    let text = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                WHERE pid = $1 AND extract(epoch FROM backend_start)::text = $2";
    while connection
        .exists(text, &[&backend.pid, &backend.began])
        .await?
    {
        sleep(LOOK).await;
    }
    Ok(())
}

/// Tells whether what a plan writes is in the log; returns the session's number.
async fn stands(connection: &Connection, plan: &Plan) -> Result<Option<i64>, Fault> {
    // A receipt alone is written again.
    let Some(write) = plan
        .write
        .as_ref()
        .filter(|write| !write.records.is_empty())
    else {
        return Ok(None);
    };
    let end = write.end();
    let text = "SELECT s.no, r.hash, s.deleted FROM sessions s LEFT JOIN records r \
                ON r.session_no = s.no AND r.position = $2 WHERE s.id = $1";
    let id = plan.group.session.to_string();
    let Some(row) = connection.row(text, &[&id, &integer(end.tail)]).await? else {
        // One that was there is only removed after it was deleted, which may have been by this.
        let no = write.before.as_ref().map(|before| before.no);
        return Ok(no.filter(|_| write.state.deleted));
    };
    let hash: Option<&[u8]> = row.try_get(1)?;
    let (no, deleted): (i64, bool) = (row.try_get(0)?, row.try_get(2)?);
    // The records of a deleted session may be gone already.
    let stands = hash.map_or(deleted && write.state.deleted, |hash| hash == end.hash);
    Ok(stands.then_some(no))
}
