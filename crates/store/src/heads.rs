//! The heads of sessions that were written to lately: a cache and nothing more.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use outlast_protocol::id::SessionId;
use outlast_session::State;
use tokio::time::Instant;

use crate::End;

/// Heads kept at most.
const KEPT: usize = 1_024;
/// How long a session that nobody writes to costs memory.
const IDLE: Duration = Duration::from_secs(30);

/// The end of a log and what it folds to.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// The session's number in the tables.
    pub(crate) no: i64,
    pub(crate) state: Arc<State>,
    pub(crate) hash: [u8; 32],
}

impl Head {
    pub(crate) fn end(&self) -> End {
        End {
            tail: self.state.tail,
            hash: self.hash,
        }
    }
}

/// Committed heads; only the writer puts them in.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    kept: Mutex<HashMap<SessionId, (Head, Instant)>>,
}

impl Heads {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, (Head, Instant)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a committed head, if it is at hand.
    pub(crate) fn get(&self, session: SessionId) -> Option<Head> {
        self.lock().get(&session).map(|(head, _)| head.clone())
    }

    /// Keeps heads that were just committed.
    pub(crate) fn commit(&self, heads: impl IntoIterator<Item = (SessionId, Head)>) {
        let now = Instant::now();
        let mut kept = self.lock();
        for (session, head) in heads {
            kept.insert(session, (head, now));
        }
        if kept.len() > KEPT {
            halve(&mut kept);
        }
    }

    /// Drops a head that is behind a tail.
    pub(crate) fn outdated(&self, session: SessionId, tail: u64) {
        let mut kept = self.lock();
        if kept
            .get(&session)
            .is_some_and(|(head, _)| head.state.tail < tail)
        {
            kept.remove(&session);
        }
    }

    /// Drops one head.
    pub(crate) fn forget(&self, session: SessionId) {
        self.lock().remove(&session);
    }

    /// Tells whether no head is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Drops all heads: what they say may not be true.
    pub(crate) fn clear(&self) {
        *self.lock() = HashMap::new();
    }

    /// Drops those that have been idle.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let mut kept = self.lock();
        kept.retain(|_, (_, used)| now.saturating_duration_since(*used) < IDLE);
        if kept.is_empty() {
            *kept = HashMap::new();
        }
    }
}

/// Drops the older half, so that making room costs little per head.
fn halve(kept: &mut HashMap<SessionId, (Head, Instant)>) {
    let mut ages: Vec<Instant> = kept.values().map(|(_, used)| *used).collect();
    ages.sort_unstable();
    if let Some(middle) = ages.get(ages.len() / 2).copied() {
        let mut spare = KEPT / 2;
        kept.retain(|_, (_, used)| {
            let keep = *used >= middle && spare > 0;
            spare -= usize::from(keep);
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use outlast_protocol::Micros;
    use outlast_testkit::random::Constant;

    use super::*;

    fn head(number: usize) -> (SessionId, Head) {
        let at = i64::try_from(number).unwrap() * 1_000;
        let id = SessionId::mint(Micros(at), &Constant(0));
        (
            id,
            Head {
                no: 1,
                state: Arc::new(State::blank(id)),
                hash: [0; 32],
            },
        )
    }

    #[tokio::test(start_paused = true)]
    async fn idle_sessions_cost_no_memory() {
        let heads = Heads::default();
        for number in 0..10 * KEPT {
            heads.commit([head(number)]);
            assert!(heads.lock().len() <= KEPT);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let (newest, _) = head(10 * KEPT - 1);
        assert!(heads.get(newest).is_some(), "the newest stay");
        tokio::time::advance(IDLE).await;
        heads.sweep();
        assert!(heads.is_empty());
        assert_eq!(heads.lock().capacity(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_large_batch_is_bounded_too() {
        let heads = Heads::default();
        heads.commit((0..3 * KEPT).map(head));
        assert!(heads.lock().len() <= KEPT);
    }
}
