//! What waits for a lane, by session, in the order it was asked for.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use outlast_blobs::Away;
use tokio::{sync::Notify, time::Instant};

use crate::{
    AppendError,
    lines::{Batch, Bounds, Lines, Ticket},
    staging::Staged,
    waiting::{AppendJob, Turned},
};

/// What one round takes.
const ROUND: Batch = Batch {
    writes: 512,
    share: 64,
    bytes: 4 << 20,
};
/// What may wait; past this the store is overloaded and says so.
const WAITING: Bounds = Bounds {
    writes: 32_768,
    of_one: 4_096,
    bytes: 128 << 20,
};

/// Hands appends to a lane.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    signal: Notify,
}

#[derive(Debug)]
struct Inner {
    lines: Lines<AppendJob>,
    closed: bool,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            lines: Lines::new(WAITING),
            closed: false,
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what waits, unless nothing may wait any more.
    fn open(&self) -> Result<MutexGuard<'_, Inner>, Turned> {
        let inner = self.lock();
        if inner.closed {
            Err(Turned::Closed)
        } else {
            Ok(inner)
        }
    }

    /// Adds an append behind those of its session.
    pub(super) fn push(&self, job: AppendJob) -> Result<(), Turned> {
        self.open()?.lines.push(job)?;
        self.signal.notify_one();
        Ok(())
    }

    /// Adds an append whose bodies are being put into blobs; [`Queue::staged`] lets it go on.
    pub(super) fn push_staging(&self, job: AppendJob) -> Result<Ticket, Turned> {
        self.open()?.lines.push_staging(job)
    }

    /// Lets an append go on, and those behind it.
    pub(super) fn staged(&self, ticket: Ticket, bodies: Staged) {
        self.lock().lines.staged(ticket, bodies);
        self.signal.notify_one();
    }

    /// Takes what can go, each session its share; `None` once nothing more will come.
    ///
    /// Returns at once with what there is if somebody holds appends already.
    pub(super) async fn take(&self, holds: bool) -> Option<Vec<AppendJob>> {
        loop {
            let signalled = self.signal.notified();
            {
                let mut inner = self.lock();
                if inner.closed {
                    return None;
                }
                if holds || inner.lines.is_ready() {
                    let mut taken = Vec::new();
                    inner.lines.fill(&mut taken, ROUND);
                    return Some(taken);
                }
            }
            signalled.await;
        }
    }

    /// Tells what has waited so long that it is not waited for.
    pub(super) fn expire(&self, patience: Duration, reason: &str) {
        let now = Instant::now();
        let old = |job: &AppendJob| now.saturating_duration_since(job.since) >= patience;
        let gone = self.lock().lines.expired(old);
        for job in gone {
            job.answer(Err(AppendError::Unavailable(Away::other(reason))));
        }
    }

    /// Takes nothing more; what waits is dropped, and so its writers are told.
    pub(super) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        let waiting = inner.lines.clear();
        drop(inner);
        drop(waiting);
        self.signal.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use outlast_protocol::{
        Micros,
        id::{ApiKeyId, SessionId},
    };
    use outlast_session::Proposal;
    use outlast_testkit::random::Constant;
    use tokio::sync::oneshot;

    use super::*;
    use crate::Append;

    fn job(session: u8, size: usize) -> AppendJob {
        let (reply, _) = oneshot::channel();
        AppendJob {
            session: SessionId::mint(Micros(0), &Constant(session)),
            append: Append {
                proposal: Proposal::Archive(ApiKeyId::mint(Micros(0), &Constant(1))),
                receipt: None,
            },
            staged: Ok(Vec::new()),
            size,
            large: 0,
            since: Instant::now(),
            reply,
        }
    }

    fn sizes(taken: &[AppendJob]) -> Vec<usize> {
        taken.iter().map(|job| job.size).collect()
    }

    #[tokio::test]
    async fn what_waits_for_a_body_holds_up_its_session_alone() {
        let queue = Queue::default();
        queue.push(job(1, 1)).unwrap();
        let ticket = queue.push_staging(job(1, 2)).unwrap();
        queue.push(job(1, 3)).unwrap();
        queue.push(job(2, 4)).unwrap();
        assert_eq!(sizes(&queue.take(false).await.unwrap()), [1, 4]);
        assert_eq!(sizes(&queue.take(true).await.unwrap()), [0; 0]);
        queue.push(job(1, 5)).unwrap();
        queue.staged(ticket, Err(Away::other("no")));
        let taken = queue.take(false).await.unwrap();
        assert_eq!(sizes(&taken), [2, 3, 5]);
        assert!(taken[0].staged.is_err());
    }

    #[tokio::test]
    async fn rounds_are_bounded_and_so_is_what_waits() {
        let queue = Queue::default();
        for _ in 0..2 {
            queue.push(job(1, ROUND.bytes)).unwrap();
        }
        assert_eq!(queue.take(false).await.unwrap().len(), 1);
        assert_eq!(queue.take(false).await.unwrap().len(), 1);
        for number in (0..16).cycle().take(WAITING.writes) {
            queue.push(job(number, 0)).unwrap();
        }
        assert!(matches!(queue.push(job(17, 0)), Err(Turned::Full)));
        assert_eq!(queue.take(false).await.unwrap().len(), ROUND.writes);
        queue.close();
        assert!(queue.take(false).await.is_none());
        assert!(matches!(queue.push(job(3, 0)), Err(Turned::Closed)));
        assert!(matches!(queue.push_staging(job(3, 0)), Err(Turned::Closed)));
    }
}
