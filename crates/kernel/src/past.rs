//! How long ago a moment was, however the clock was set since.
//!
//! What is kept for ten minutes is told by its time of day. A clock that is set forward by an hour would
//! make all of it an hour old at once, and the retry of a request would be taken for a new one. So this
//! remembers by how much the time of day was ahead of the steady clock, for as long as anything is kept.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use outlast_protocol::{Micros, seam::Clock};

/// The longest time ago that is asked for.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What a clock may move by itself: drift, and the small steps of those who correct it.
const DRIFT: i64 = 1_000_000;

/// Settings that are remembered; of more, the oldest count as one.
const MOST: usize = 64;

/// How far the time of day was ahead of the steady clock.
#[derive(Debug)]
pub(crate) struct Past(Mutex<VecDeque<Setting>>);

/// The clock between two times that it was set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Setting {
    /// Microseconds by which the time of day was ahead.
    ahead: i64,
    /// The last moment of the steady clock at which that may have been so.
    until: i64,
}

impl Past {
    /// Begins to remember.
    pub(crate) fn new(clock: &dyn Clock) -> Self {
        let past = Self(Mutex::default());
        past.ago(clock, Duration::ZERO);
        past
    }

    /// Returns what the time of day was so long ago; of several that it may have been, the earliest.
    ///
    /// Nothing that happened since then has an earlier time of day, unless another clock gave it.
    pub(crate) fn ago(&self, clock: &dyn Clock, long: Duration) -> Micros {
        let (now, steady) = (clock.now().0, micros(clock.uptime()));
        let mut settings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look(&mut settings, now.saturating_sub(steady), steady);
        let from = steady.saturating_sub(micros(long));
        let held = settings.iter().filter(|setting| setting.until >= from);
        let ahead = held.map(|setting| setting.ahead).min();
        Micros(from.saturating_add(ahead.unwrap_or_default()))
    }
}

/// Notes how the clock is set now.
fn look(settings: &mut VecDeque<Setting>, ahead: i64, steady: i64) {
    match settings.back_mut() {
        // When it was set is not known; the other setting held until now at most.
        Some(last) => {
            last.until = steady;
            if last.ahead.abs_diff(ahead) >= DRIFT.unsigned_abs() {
                settings.push_back(Setting {
                    ahead,
                    until: steady,
                });
            } else {
                last.ahead = last.ahead.min(ahead);
            }
        }
        None => settings.push_back(Setting {
            ahead,
            until: steady,
        }),
    }
    let oldest = steady.saturating_sub(micros(LONGEST));
    while settings.front().is_some_and(|first| first.until < oldest) {
        settings.pop_front();
    }
    while settings.len() > MOST {
        let gone = settings.pop_front();
        if let (Some(gone), Some(first)) = (gone, settings.front_mut()) {
            first.ahead = first.ahead.min(gone.ahead);
        }
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const TEN: Duration = Duration::from_secs(600);

    /// A clock of seconds that is moved and set by hand.
    #[derive(Debug, Default)]
    struct Hand {
        steady: AtomicI64,
        ahead: AtomicI64,
    }

    impl Hand {
        fn pass(&self, seconds: i64) {
            self.steady.fetch_add(seconds, Ordering::SeqCst);
        }

        fn set(&self, seconds: i64) {
            self.ahead.fetch_add(seconds, Ordering::SeqCst);
        }
    }

    impl Clock for Hand {
        fn now(&self) -> Micros {
            let steady = self.steady.load(Ordering::SeqCst);
            Micros((steady + self.ahead.load(Ordering::SeqCst)) * 1_000_000)
        }

        fn uptime(&self) -> Duration {
            Duration::from_secs(self.steady.load(Ordering::SeqCst).unsigned_abs())
        }
    }

    fn begin() -> (Hand, Past) {
        let clock = Hand::default();
        clock.pass(100 * HOUR);
        clock.set(1_000 * HOUR);
        let past = Past::new(&clock);
        (clock, past)
    }

    fn seconds(past: &Past, clock: &Hand, long: Duration) -> i64 {
        past.ago(clock, long).0 / 1_000_000
    }

    #[test]
    fn a_clock_that_is_left_alone_is_what_it_shows() {
        let (clock, past) = begin();
        for _ in 0..100 {
            let now = clock.now().0 / 1_000_000;
            assert_eq!(seconds(&past, &clock, TEN), now - 600);
            clock.pass(7 * MINUTE);
        }
        assert_eq!(past.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_clock_that_is_set_forward_makes_nothing_older() {
        let (clock, past) = begin();
        let before = clock.now().0 / 1_000_000;
        clock.pass(MINUTE);
        clock.set(HOUR);
        assert_eq!(seconds(&past, &clock, TEN), before + MINUTE - 600);
        // Nine minutes on, what was before the first look is ten minutes old.
        clock.pass(9 * MINUTE);
        assert_eq!(seconds(&past, &clock, TEN), before);
        // And once all before it is older than that, the clock counts as it shows.
        clock.pass(2 * MINUTE);
        let now = clock.now().0 / 1_000_000;
        assert_eq!(seconds(&past, &clock, TEN), now - 600);
        let day = seconds(&past, &clock, LONGEST);
        assert_eq!(day, now - HOUR - 24 * HOUR, "for a day it is remembered");
    }

    #[test]
    fn a_clock_that_is_set_back_loses_nothing_either() {
        let (clock, past) = begin();
        clock.set(-HOUR);
        let now = clock.now().0 / 1_000_000;
        assert_eq!(seconds(&past, &clock, TEN), now - 600);
    }

    #[test]
    fn a_clock_that_is_set_again_and_again_fills_no_memory() {
        let (clock, past) = begin();
        let before = clock.now().0 / 1_000_000;
        for _ in 0..500 {
            clock.set(HOUR);
            past.ago(&clock, TEN);
        }
        assert_eq!(past.0.lock().unwrap().len(), MOST);
        assert_eq!(seconds(&past, &clock, TEN), before - 600);
    }
}
