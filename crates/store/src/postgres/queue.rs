//! What waits for a lane, by session, in the order it was asked for.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use outlast_protocol::id::SessionId;
use tokio::sync::Notify;

use crate::{
    staging::Staged,
    waiting::{AppendJob, Turned},
};

/// Appends that one round takes at most.
const ROUND: usize = 512;
/// Bytes of bodies that one round takes, unless a single append has more.
const ROUND_BYTES: usize = 4 * 1024 * 1024;
/// Appends that may wait; past this the store is overloaded and says so.
const WAITING: usize = 32_768;

/// Hands appends to a lane.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    signal: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: HashMap<SessionId, VecDeque<Held>>,
    /// Sessions whose first append can go, each once.
    order: VecDeque<SessionId>,
    waiting: usize,
    next: u64,
    closed: bool,
}

#[derive(Debug)]
struct Held {
    job: AppendJob,
    /// Set while its bodies are on their way to blobs.
    staging: Option<u64>,
}

/// Names an append whose bodies are on their way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    session: SessionId,
    number: u64,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an append behind those of its session.
    pub(super) fn push(&self, job: AppendJob) -> Result<(), Turned> {
        self.lock().push(Held { job, staging: None })?;
        self.signal.notify_one();
        Ok(())
    }

    /// Adds an append whose bodies are being put into blobs; [`Queue::staged`] lets it go on.
    pub(super) fn push_staging(&self, job: AppendJob) -> Result<Ticket, Turned> {
        let mut inner = self.lock();
        let (session, number) = (job.session, inner.next);
        inner.next += 1;
        let staging = Some(number);
        inner.push(Held { job, staging })?;
        Ok(Ticket { session, number })
    }

    /// Lets an append go on, and those behind it.
    pub(super) fn staged(&self, ticket: Ticket, bodies: Staged) {
        let mut inner = self.lock();
        let Inner {
            sessions, order, ..
        } = &mut *inner;
        let Some(waiting) = sessions.get_mut(&ticket.session) else {
            return;
        };
        let wanted = Some(ticket.number);
        let Some(place) = waiting.iter().position(|held| held.staging == wanted) else {
            return;
        };
        if let Some(held) = waiting.get_mut(place) {
            held.staging = None;
            held.job.staged = bodies;
        }
        if place == 0 {
            order.push_back(ticket.session);
        }
        drop(inner);
        self.signal.notify_one();
    }

    /// Takes what can go, the longest waiting sessions first; `None` once nothing more will come.
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
                if holds || !inner.order.is_empty() {
                    return Some(inner.take());
                }
            }
            signalled.await;
        }
    }

    /// Takes nothing more; what waits is dropped, and so its writers are told.
    pub(super) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.order.clear();
        let waiting = std::mem::take(&mut inner.sessions);
        drop(inner);
        drop(waiting);
        self.signal.notify_one();
    }
}

impl Inner {
    fn push(&mut self, held: Held) -> Result<(), Turned> {
        if self.closed {
            return Err(Turned::Closed);
        }
        if self.waiting >= WAITING {
            return Err(Turned::Full);
        }
        self.waiting += 1;
        let (session, ready) = (held.job.session, held.staging.is_none());
        let waiting = self.sessions.entry(session).or_default();
        if waiting.is_empty() && ready {
            self.order.push_back(session);
        }
        waiting.push_back(held);
        Ok(())
    }

    fn take(&mut self) -> Vec<AppendJob> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(session) = self.order.pop_front() {
            let Some(waiting) = self.sessions.get_mut(&session) else {
                continue;
            };
            while let Some(front) = waiting.front() {
                if front.staging.is_some() {
                    break;
                }
                let full = taken.len() >= ROUND || bytes + front.job.size > ROUND_BYTES;
                if full && !taken.is_empty() {
                    self.order.push_front(session);
                    return taken;
                }
                bytes += front.job.size;
                self.waiting -= 1;
                taken.extend(waiting.pop_front().map(|held| held.job));
            }
            if waiting.is_empty() {
                self.sessions.remove(&session);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use outlast_protocol::{Micros, id::ApiKeyId, seam::Entropy};
    use outlast_session::Proposal;
    use tokio::{sync::oneshot, time::Instant};

    use super::*;
    use crate::Append;

    #[derive(Debug)]
    struct Constant(u8);

    impl Entropy for Constant {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(self.0);
        }
    }

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
        queue.staged(ticket, Err("no".to_owned()));
        let taken = queue.take(false).await.unwrap();
        assert_eq!(sizes(&taken), [2, 3, 5]);
        assert!(taken[0].staged.is_err());
    }

    #[tokio::test]
    async fn rounds_are_bounded_and_so_is_what_waits() {
        let queue = Queue::default();
        for _ in 0..3 {
            queue.push(job(1, ROUND_BYTES)).unwrap();
        }
        assert_eq!(queue.take(false).await.unwrap().len(), 1);
        assert_eq!(queue.take(false).await.unwrap().len(), 1);
        for _ in 1..WAITING {
            queue.push(job(3, 0)).unwrap();
        }
        assert!(matches!(queue.push(job(3, 0)), Err(Turned::Full)));
        assert_eq!(queue.take(false).await.unwrap().len(), ROUND);
        queue.close();
        assert!(queue.take(false).await.is_none());
        assert!(matches!(queue.push(job(3, 0)), Err(Turned::Closed)));
    }
}
