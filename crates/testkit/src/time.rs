//! A clock that stands until it is moved.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use outlast_protocol::{Micros, seam::Clock};
use outlast_store::conformance::fixture::Dial;

/// Tells the time it was set to.
#[derive(Debug)]
pub struct ManualClock {
    now: AtomicI64,
    /// By how many microseconds it was set forward, or back.
    set: AtomicI64,
}

impl ManualClock {
    /// Makes a clock that stands at `now`.
    pub fn new(now: Micros) -> Self {
        Self {
            now: AtomicI64::new(now.0),
            set: AtomicI64::new(0),
        }
    }

    /// Sets it forward: no time has passed.
    pub fn jump(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        self.set.fetch_add(micros, Ordering::SeqCst);
        self.advance(time);
    }

    /// Moves it on; returns the new time.
    pub fn advance(&self, time: Duration) -> Micros {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let before = self.now.fetch_add(micros, Ordering::SeqCst);
        Micros(before.wrapping_add(micros))
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new(Micros(1_800_000_000_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Micros {
        Micros(self.now.load(Ordering::SeqCst))
    }

    fn uptime(&self) -> Duration {
        let passed = self.now().0.saturating_sub(self.set.load(Ordering::SeqCst));
        Duration::from_micros(u64::try_from(passed).unwrap_or(0))
    }
}

impl Dial for ManualClock {
    fn set(&self, now: Micros) {
        self.now.store(now.0, Ordering::SeqCst);
    }
}

/// Follows tokio's clock from a moment on, so that a paused runtime decides the time of day too.
#[derive(Debug)]
pub struct RuntimeClock {
    start: Micros,
    began: tokio::time::Instant,
    /// By how many microseconds it was set forward, or back.
    set: AtomicI64,
}

impl RuntimeClock {
    /// Makes a clock that shows `start` now.
    pub fn new(start: Micros) -> Self {
        Self {
            start,
            began: tokio::time::Instant::now(),
            set: AtomicI64::new(0),
        }
    }

    /// Sets it forward, or back, by so many seconds.
    pub fn jump(&self, seconds: i64) {
        let micros = seconds.saturating_mul(1_000_000);
        self.set.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Micros {
        let steady = self.start.after(self.began.elapsed());
        Micros(steady.0.saturating_add(self.set.load(Ordering::SeqCst)))
    }

    fn uptime(&self) -> Duration {
        self.began.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_goes_where_it_is_told() {
        let clock = ManualClock::new(Micros(10));
        assert_eq!(clock.advance(Duration::from_micros(5)), Micros(15));
        clock.set(Micros(3));
        assert_eq!(clock.now(), Micros(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_clock_follows_a_paused_runtime() {
        let clock = RuntimeClock::new(Micros(0));
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert!(clock.now() >= Micros(3_600_000_000));
        clock.jump(-7_200);
        assert!(clock.now() < Micros(0));
        clock.jump(3_600);
        assert!(clock.now() >= Micros(0));
    }
}
