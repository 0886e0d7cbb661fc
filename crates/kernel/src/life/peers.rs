//! Watches the beats of other processes, and declares dead whose beat stands still.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use outlast_protocol::id::ProcessId;
use outlast_store::{Process, ReadError};
use tokio::time::sleep;

use super::PARTS;
use crate::{kernel::Inner, metric_definitions as metrics};

/// What was seen of others.
#[derive(Debug)]
struct Peers {
    bound: Duration,
    /// The last look, by the clock's uptime.
    last: Option<Duration>,
    seen: BTreeMap<ProcessId, Seen>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Seen {
    beats: u64,
    /// For how long it was watched without a beat.
    still: Duration,
}

impl Peers {
    fn new(bound: Duration) -> Self {
        Self {
            bound,
            last: None,
            seen: BTreeMap::new(),
        }
    }

    /// Takes note of what is seen at `now`; returns who is to be declared dead.
    ///
    /// Between two looks no more counts than the time between looks that follow each other as they
    /// should: whoever was stopped itself, slept, or could not look has not watched anybody.
    fn look(&mut self, own: ProcessId, now: Duration, listed: &[Process]) -> Vec<ProcessId> {
        let watched = self.last.map_or(Duration::ZERO, |last| {
            now.saturating_sub(last).min(self.bound / PARTS * 2)
        });
        self.last = Some(now);
        let others = listed.iter().filter(|one| one.id != own && !one.dead);
        let seen = others.map(|one| {
            let before = self.seen.get(&one.id);
            let still = match before {
                Some(before) if before.beats == one.beats => before.still + watched,
                Some(_) | None => Duration::ZERO,
            };
            let beats = one.beats;
            (one.id, Seen { beats, still })
        });
        self.seen = seen.collect();
        let still = self
            .seen
            .iter()
            .filter(|(_, seen)| seen.still >= self.bound);
        still.map(|(id, _)| *id).collect()
    }
}

/// Watches until the kernel closes.
pub(crate) async fn watch(inner: Arc<Inner>) {
    let Some(beats) = inner.life.beats else {
        return;
    };
    let mut peers = Peers::new(beats.bound);
    loop {
        if let Err(fault) = look(&inner, &mut peers).await {
            tracing::debug!(%fault, "beats of others cannot be looked at: {fault}");
        }
        tokio::select! {
            biased;
            () = sleep(beats.bound / PARTS) => {}
            () = inner.closing.cancelled() => return,
        }
    }
}

/// Looks once.
async fn look(inner: &Inner, peers: &mut Peers) -> Result<(), ReadError> {
    // A look that took long saw what was there when it began, or later.
    let now = inner.clock.uptime();
    let listed = inner.store.processes().await?;
    let own = inner.life.process();
    for peer in peers.look(own, now, &listed) {
        // Whoever does not know whether it lives itself says nothing of others.
        if inner.life.check(own).is_err() {
            return Ok(());
        }
        inner.store.declare_dead(peer).await?;
        ::metrics::counter!(metrics::DECLARED).increment(1);
        tracing::warn!("`{peer}` does not beat any more: it is declared dead");
        inner.wake.notify_one();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use outlast_protocol::Micros;
    use outlast_testkit::random::Constant;

    use super::*;

    const T: Duration = Duration::from_secs(12);

    fn id(number: i64) -> ProcessId {
        ProcessId::mint(Micros(number * 1_000), &Constant(0))
    }

    fn process(number: i64, beats: u64) -> Process {
        Process {
            id: id(number),
            node: String::new(),
            beats,
            dead: false,
        }
    }

    /// Looks at these moments, in seconds, at a peer with so many beats; returns when it died.
    fn died(looks: impl IntoIterator<Item = (u64, u64)>) -> Option<u64> {
        let mut peers = Peers::new(T);
        looks.into_iter().find_map(|(at, beats)| {
            let listed = [process(1, 0), process(2, beats)];
            let dead = peers.look(id(1), Duration::from_secs(at), &listed);
            assert!(!dead.contains(&id(1)), "nobody declares itself dead");
            (!dead.is_empty()).then_some(at)
        })
    }

    #[test]
    fn whose_beat_stands_still_for_the_bound_is_dead() {
        assert_eq!(died((0..10).map(|n| (2 * n, 7))), Some(12));
        assert_eq!(
            died((0..10).map(|n| (2 * n, n / 5))),
            None,
            "it moves now and then"
        );
        assert_eq!(
            died((0..20).map(|n| (2 * n, n.min(4)))),
            Some(20),
            "it ended"
        );
        // A database that was set back is a change too.
        assert_eq!(
            died((0..12).map(|n| (2 * n, if n < 6 { 9 } else { 3 }))),
            None
        );
    }

    #[test]
    fn whoever_did_not_look_has_not_watched() {
        assert_eq!(
            died([(0, 7), (1_000, 7), (2_000, 7)]),
            None,
            "stopped in between"
        );
        let late = (0..9).map(|n| (1_000 + 2 * n, 7));
        assert_eq!(died([(0, 7), (2, 7)].into_iter().chain(late)), Some(1_006));
        let moved = (0..5).map(|n| (1_000 + 2 * n, 8));
        assert_eq!(died([(0, 7)].into_iter().chain(moved)), None);
    }

    #[test]
    fn the_dead_and_the_gone_are_forgotten() {
        let mut peers = Peers::new(T);
        let (first, second) = (process(2, 1), process(3, 1));
        peers.look(id(1), Duration::ZERO, &[first.clone(), second.clone()]);
        let dead = Process {
            dead: true,
            ..first
        };
        assert_eq!(peers.look(id(1), T, &[dead, second]), []);
        assert_eq!(peers.seen.keys().copied().collect::<Vec<_>>(), [id(3)]);
    }
}
