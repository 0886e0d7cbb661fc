//! Looks after invariant 6: every unfinished session has a next waker.
//!
//! It should never find anything. What it finds is counted, said in the log by ids alone, and
//! woken.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use outlast_protocol::{
    diagnosis::{Holder, Unfinished, WaitsFor},
    id::{SessionId, ThreadId},
};
use tokio::time::{Instant, sleep};

use crate::{Kernel, kernel::Inner, metric_definitions as metrics};

/// How often it looks.
const LOOK: Duration = Duration::from_secs(10);

/// How long something that should pass by itself may last before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is remembered of threads that should not stay as they are.
#[derive(Debug, Default)]
pub(crate) struct Monitor(Mutex<BTreeMap<(SessionId, u32), Doubt>>);

/// A thread that should not stay as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Doubt {
    /// The last record of its session then.
    tail_at: i64,
    since: Instant,
}

impl Monitor {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(SessionId, u32), Doubt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether a thread stays as it should not.
    pub(crate) fn is_stuck(&self, session: SessionId, thread: u32) -> bool {
        let doubts = self.lock();
        let doubt = doubts.get(&(session, thread));
        doubt.is_some_and(|doubt| doubt.since.elapsed() >= PATIENCE)
    }

    /// Remembers who is in doubt since when; returns who is stuck.
    fn note(&self, doubtful: &[(SessionId, u32, i64)]) -> Vec<(SessionId, u32)> {
        let now = Instant::now();
        let mut doubts = self.lock();
        let mut next = BTreeMap::new();
        for (session, thread, tail_at) in doubtful.iter().copied() {
            let key = (session, thread);
            let known = doubts.get(&key).filter(|doubt| doubt.tail_at == tail_at);
            let since = known.map_or(now, |doubt| doubt.since);
            next.insert(key, Doubt { tail_at, since });
        }
        *doubts = next;
        let long = doubts
            .iter()
            .filter(|(_, doubt)| now.saturating_duration_since(doubt.since) >= PATIENCE);
        long.map(|(key, _)| *key).collect()
    }
}

/// Looks again and again until the kernel closes.
pub(crate) async fn watch(inner: Arc<Inner>) {
    loop {
        tokio::select! {
            biased;
            () = sleep(LOOK) => {}
            () = inner.closing.cancelled() => return,
        }
        if let Err(fault) = look(&inner).await {
            tracing::warn!(%fault, "cannot look after unfinished sessions: {fault}");
        }
    }
}

/// Looks once, counts, and wakes what is stuck.
async fn look(inner: &Arc<Inner>) -> Result<(), outlast_protocol::Problem> {
    let seen = inner.look().await?;
    count(&seen);
    let free = inner.slots.available_permits() > 0;
    let mut doubtful = Vec::new();
    for one in &seen {
        if is_doubtful(one, free, inner.clock.now())
            && let Some(number) = inner.number(one.session_id, one.thread_id).await
            && !inner.quarantine.has(one.session_id, number)
        {
            doubtful.push((one.session_id, number, one.last_record_at.0));
        }
    }
    let stuck = inner.monitor.note(&doubtful);
    let size = u32::try_from(stuck.len()).unwrap_or(u32::MAX);
    ::metrics::gauge!(metrics::STUCK).set(size);
    for (session, thread) in stuck {
        tracing::error!(session.id = %session, thread, "nobody wakes `{session}`: it is woken now");
        if let Err(fault) = Kernel(inner.clone()).wake(session).await {
            tracing::error!(session.id = %session, %fault, "cannot wake `{session}`: {fault}");
        }
    }
    Ok(())
}

/// Tells whether a thread should not stay as it is for long.
fn is_doubtful(one: &Unfinished, free: bool, now: outlast_protocol::Micros) -> bool {
    match &one.waits_for {
        // Only what shows itself as working is listed: then nobody being waited for is wrong.
        WaitsFor::Nothing | WaitsFor::Input | WaitsFor::Answers { .. } => true,
        WaitsFor::Operator { .. } => false,
        WaitsFor::AnyBrain => free,
        WaitsFor::Timer { at } => free && *at <= now,
        WaitsFor::Brain { holder, .. } => match holder {
            Holder::Here | Holder::Elsewhere => false,
            Holder::Forgotten => true,
            Holder::Dead => free,
        },
    }
}

fn count(seen: &[Unfinished]) {
    let words = [
        "nothing",
        "input",
        "answers",
        "brain",
        "any_brain",
        "timer",
        "operator",
    ];
    let mut counts: BTreeMap<&str, u32> = words.map(|word| (word, 0)).into();
    for one in seen {
        *counts.entry(one.waits_for.word()).or_default() += 1;
    }
    for (word, count) in counts {
        ::metrics::gauge!(metrics::UNFINISHED, "waits_for" => word).set(count);
    }
}

impl Inner {
    async fn number(&self, session: SessionId, thread: ThreadId) -> Option<u32> {
        let state = self.store.head(session).await.ok()?;
        state.find(thread).map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use outlast_protocol::{Micros, id::ProcessId, session::Status};
    use outlast_testkit::random::Constant;

    use super::*;

    fn session() -> SessionId {
        SessionId::mint(Micros(1), &Constant(0))
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_does_not_move_for_long_is_stuck() {
        let (monitor, doubtful) = (Monitor::default(), [(session(), 0, 7)]);
        assert_eq!(monitor.note(&doubtful), []);
        tokio::time::advance(PATIENCE / 2).await;
        assert_eq!(monitor.note(&doubtful), []);
        assert!(!monitor.is_stuck(session(), 0));
        tokio::time::advance(PATIENCE / 2).await;
        assert_eq!(monitor.note(&doubtful), [(session(), 0)]);
        assert!(monitor.is_stuck(session(), 0) && !monitor.is_stuck(session(), 1));
        // A record came: it begins anew.
        assert_eq!(monitor.note(&[(session(), 0, 8)]), []);
        assert!(!monitor.is_stuck(session(), 0));
        assert_eq!(monitor.note(&[]), []);
        assert!(monitor.lock().is_empty(), "what is at rest costs nothing");
    }

    #[test]
    fn only_what_should_pass_by_itself_is_doubted() {
        let now = Micros(1_000);
        let process_id = ProcessId::mint(now, &Constant(0));
        let brain = |holder| WaitsFor::Brain { process_id, holder };
        for (waits_for, with_free, without) in [
            (WaitsFor::Input, true, true),
            (WaitsFor::Nothing, true, true),
            (
                WaitsFor::Operator {
                    attempts: 10,
                    parked_at: now,
                },
                false,
                false,
            ),
            (WaitsFor::AnyBrain, true, false),
            (WaitsFor::Timer { at: now }, true, false),
            (WaitsFor::Timer { at: Micros(1_001) }, false, false),
            (brain(Holder::Here), false, false),
            (brain(Holder::Elsewhere), false, false),
            (brain(Holder::Forgotten), true, true),
            (brain(Holder::Dead), true, false),
        ] {
            let one = Unfinished {
                session_id: session(),
                thread_id: ThreadId::mint(now, &Constant(0)),
                status: Status::Running,
                waits_for,
                last_record_at: now,
                stuck: false,
            };
            let doubted = [true, false].map(|free| is_doubtful(&one, free, now));
            assert_eq!(doubted, [with_free, without], "{one:?}");
        }
    }
}
