//! Deadlines of sessions: shown, changed, and kept by whichever process is there.
//!
//! The moments are a projection of the logs, so they outlive every process; what follows from one is
//! decided by `admit`, on the state at the head and the time of day. A clock that is set forward is
//! noticed within [`LOOK`]; one that is set back delays what it says is not yet due.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use outlast_protocol::{
    Micros, Problem,
    deadlines::{NextDeadline, SessionDeadlines, UpdateDeadlines},
    id::{ApiKeyId, SessionId},
};
use outlast_session::{Answer, Kind, Phase, Proposal, State};
use tokio::{sync::Notify, time::sleep};

use crate::{Kernel, clients::join, kernel::Inner, metric_definitions as metrics};

/// The longest wait between two looks at the clock.
const LOOK: Duration = Duration::from_secs(5);

/// How long to wait after a look that came to nothing.
const PAUSE: Duration = Duration::from_secs(1);

/// Sessions that one look at the store brings.
const BATCH: usize = 64;

/// What this process waits for next.
#[derive(Debug)]
pub(crate) struct Timer {
    /// In microseconds; the largest number is nothing.
    next: AtomicI64,
    told: Notify,
}

impl Default for Timer {
    fn default() -> Self {
        let next = AtomicI64::new(i64::MAX);
        let told = Notify::new();
        Self { next, told }
    }
}

impl Timer {
    /// Hears what runs out next of a session that was just written to.
    pub(crate) fn hear(&self, next: Option<NextDeadline>) {
        let Some(next) = next else { return };
        if next.at.0 < self.next.load(Ordering::Acquire) {
            self.told.notify_one();
        }
    }
}

impl Kernel {
    /// Returns the deadlines of a session.
    ///
    /// # Errors
    ///
    /// If there is no such session, or the store cannot be read.
    pub async fn deadlines(&self, session: SessionId) -> Result<SessionDeadlines, Problem> {
        Ok(shown(&*self.state(session).await?))
    }

    /// Changes deadlines of a session; what has run out by the new ones does so at once.
    ///
    /// # Errors
    ///
    /// If there is no such session, or it is over.
    pub async fn set_deadlines(
        &self,
        by: ApiKeyId,
        session: SessionId,
        change: UpdateDeadlines,
    ) -> Result<SessionDeadlines, Problem> {
        let proposal = Proposal::SetDeadlines { change, by };
        let outcome = join(self.0.append(session, proposal, None, None)).await?;
        Ok(shown(&outcome.state))
    }
}

fn shown(state: &State) -> SessionDeadlines {
    let known = state.deadlines;
    SessionDeadlines {
        session_id: state.id,
        idle_seconds: known.idle_seconds,
        answer_seconds: known.answer_seconds,
        total_seconds: known.total_seconds,
        next: state.next_deadline(),
    }
}

/// Does what follows from deadlines, until the kernel closes.
pub(crate) async fn watch(inner: Arc<Inner>) {
    loop {
        // Register before looking: what is set meanwhile is not missed.
        let told = inner.timer.told.notified();
        let round = async {
            let wait = round(&inner).await;
            tokio::select! {
                biased;
                () = told => {}
                () = sleep(wait) => {}
            }
        };
        tokio::select! {
            biased;
            () = round => {}
            () = inner.closing.cancelled() => return,
        }
    }
}

/// Looks once; returns how long to wait before the next look.
async fn round(inner: &Arc<Inner>) -> Duration {
    let now = inner.clock.now();
    let due = match inner.store.overdue(now, BATCH).await {
        Ok(due) => due,
        Err(fault) => {
            tracing::warn!(%fault, "cannot look for what has run out: {fault}");
            return PAUSE;
        }
    };
    let (mut done, full) = (0, due.len() == BATCH);
    for session in &due {
        done += usize::from(expire(inner, *session).await);
    }
    if full && done > 0 {
        return Duration::ZERO;
    }
    if done < due.len() {
        return PAUSE;
    }
    match inner.store.next_deadline(now).await {
        Ok(next) => {
            let at = next.unwrap_or(Micros(i64::MAX));
            inner.timer.next.store(at.0, Ordering::Release);
            at.since(inner.clock.now()).min(LOOK)
        }
        Err(_) => PAUSE,
    }
}

/// Does what follows for one session; tells whether anything did.
async fn expire(inner: &Arc<Inner>, session: SessionId) -> bool {
    let before = inner.store.head(session).await;
    let outcome = match join(inner.append(session, Proposal::Expire, None, None)).await {
        Ok(outcome) => outcome,
        Err(problem) => {
            tracing::warn!(session.id = %session, "a deadline is not kept yet: {}", problem.message);
            return false;
        }
    };
    if outcome.answer != Answer::Appended {
        return false;
    }
    ::metrics::counter!(metrics::EXPIRED).increment(1);
    let wrote = |kind: Kind| outcome.records.iter().any(|record| record.kind == kind);
    if wrote(Kind::Archived) {
        inner.archived(&outcome.state).await;
    } else if wrote(Kind::SessionTerminated)
        && let Ok(before) = before
    {
        stop(inner, &before);
    }
    true
}

/// Stops the calls that still ran when a session was ended: nobody waits for them any more, nor for
/// that.
fn stop(inner: &Arc<Inner>, state: &State) {
    for call in state.threads.iter().flat_map(|thread| &thread.calls) {
        if let Phase::Intended(incarnation) = call.phase {
            drop(inner.stop(incarnation, call.id));
        }
    }
}
