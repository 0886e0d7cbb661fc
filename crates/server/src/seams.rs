//! The real clock and the real randomness.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use outlast_protocol::{
    Micros,
    seam::{Clock, Entropy},
};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// The system's time of day, which never goes backwards while the process lives.
///
/// If the system's clock is set back, this one goes on by the monotonic clock until the other has
/// caught up: a retry that is due in a second must not wait for an hour. Set forward, it follows.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Micros,
    began: Instant,
}

impl SystemClock {
    /// Makes a clock that starts at the system's present.
    pub fn new() -> Self {
        Self {
            start: system(),
            began: Instant::now(),
        }
    }

    /// Returns the later of the system's time and the time that must have come since the start.
    fn read(&self, system: Micros) -> Micros {
        system.max(self.start.after(self.began.elapsed()))
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Micros {
        self.read(system())
    }

    /// The clock that `Instant` has stands still while the machine sleeps.
    fn uptime(&self) -> Duration {
        let at = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(at.tv_sec).unwrap_or_default();
        Duration::new(seconds, u32::try_from(at.tv_nsec).unwrap_or_default())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the system's clock"
)]
fn system() -> Micros {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// The operating system's generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    #[expect(
        clippy::expect_used,
        reason = "without randomness keys and ids would repeat: nothing may go on"
    )]
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the operating system gives random bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_counts_microseconds() {
        let (year_2026, year_2126) = (1_767_225_600_000_000, 4_922_899_200_000_000);
        assert!((year_2026..year_2126).contains(&SystemClock::new().now().0));
    }

    #[test]
    fn a_clock_that_is_set_back_goes_on() {
        let clock = SystemClock::new();
        let hour = Duration::from_secs(3_600);
        assert!(clock.read(Micros(0)) >= clock.start);
        let ahead = clock.start.after(hour);
        assert_eq!(clock.read(ahead), ahead, "set forward, it follows");
        assert!(clock.read(Micros(0)) < ahead, "and comes back");
    }

    #[test]
    fn the_uptime_only_grows() {
        let clock = SystemClock::new();
        let before = clock.uptime();
        assert!(before > Duration::ZERO && clock.uptime() >= before);
    }

    #[test]
    fn randomness_is_not_zeros() {
        let mut buffer = [0; 64];
        OsEntropy.fill(&mut buffer);
        assert_ne!(buffer, [0; 64]);
    }
}
