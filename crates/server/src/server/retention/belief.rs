//! Whether a time of day can be believed: what goes by a wrong one does not come back.

use std::time::Duration;

use outlast_protocol::Micros;
use tokio::time::Instant;

/// How long a time of day has to go on as clocks do before anything goes by it.
pub(super) const STANDS: Duration = Duration::from_secs(24 * 60 * 60);

/// How far a clock is set at most to be right by a little.
const LITTLE: Duration = Duration::from_secs(10 * 60);

/// What is known of a clock.
#[derive(Debug)]
pub(super) struct Belief {
    /// The time of day at the last look, and when that was by a clock that nobody sets.
    last: (Micros, Instant),
    /// Since when it goes on as clocks do.
    steady: Instant,
    /// Whether something else vouches for it.
    vouched: bool,
}

impl Belief {
    pub(super) fn new(now: Micros, vouched: bool) -> Self {
        let at = Instant::now();
        Self {
            last: (now, at),
            steady: at,
            vouched,
        }
    }

    /// Takes a look; tells whether it can be believed.
    pub(super) fn look(&mut self, now: Micros) -> bool {
        let (last, at) = std::mem::replace(&mut self.last, (now, Instant::now()));
        let expected = last.after(at.elapsed());
        let set = now.since(expected).max(expected.since(now));
        if set > LITTLE {
            tracing::warn!(
                "the clock was set by {} s: old entries of the audit log stay for a day",
                set.as_secs()
            );
            self.steady = Instant::now();
            self.vouched = false;
        }
        self.vouched || self.steady.elapsed() >= STANDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    /// Lets so many hours pass, and looks each hour at a clock that was set by `set`.
    async fn pass(belief: &mut Belief, hours: u32, set: Duration) -> Vec<bool> {
        let mut seen = Vec::new();
        for _ in 0..hours {
            tokio::time::advance(HOUR).await;
            let (last, _) = belief.last;
            seen.push(belief.look(last.after(HOUR)));
        }
        let (last, _) = belief.last;
        seen.push(belief.look(last.after(set)));
        seen
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_of_day_counts_once_it_has_stood_for_a_day() {
        let mut belief = Belief::new(Micros(0), false);
        assert!(!belief.look(Micros(0)));
        let mut expected = vec![false; 23];
        expected.extend([true, true]);
        assert_eq!(pass(&mut belief, 24, LITTLE).await, expected);
        // Set by years it has to stand for another day.
        assert_eq!(pass(&mut belief, 1, 10_000 * STANDS).await, [true, false]);
        assert_eq!(pass(&mut belief, 24, Duration::ZERO).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_vouched_for_counts_until_it_is_set() {
        let mut belief = Belief::new(Micros(0), true);
        assert!(belief.look(Micros(0)));
        assert_eq!(pass(&mut belief, 1, 2 * HOUR).await, [true, false]);
        assert!(!pass(&mut belief, 1, Duration::ZERO).await[0]);
    }
}
