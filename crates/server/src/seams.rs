//! The real clock and the real randomness.

use std::time::{SystemTime, UNIX_EPOCH};

use outlast_protocol::{
    Micros,
    seam::{Clock, Entropy},
};

/// The system's time of day.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the system's clock"
    )]
    fn now(&self) -> Micros {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
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
        assert!((year_2026..year_2126).contains(&SystemClock.now().0));
    }

    #[test]
    fn randomness_is_not_zeros() {
        let mut buffer = [0; 64];
        OsEntropy.fill(&mut buffer);
        assert_ne!(buffer, [0; 64]);
    }
}
