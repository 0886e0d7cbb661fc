//! Randomness that a seed decides, so that a storm can be had again.

use std::time::Duration;

/// Numbers that follow from a seed.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Makes the numbers of one part of the storm; parts of the same seed draw different ones.
    pub(super) fn new(seed: u64, part: &str) -> Self {
        let sum = part.bytes().fold(seed, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(sum)
    }

    /// Draws a number.
    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number below `bound`; 0 if that is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.draw().checked_rem(bound).unwrap_or(0)
    }

    /// Is true once in so many times.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Draws a time below `bound`.
    pub(super) fn time(&mut self, bound: Duration) -> Duration {
        let micros = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.below(micros))
    }

    /// Draws one of these.
    pub(super) fn one<'i, T>(&mut self, items: &'i [T]) -> Option<&'i T> {
        let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
        items.get(usize::try_from(self.below(count)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_and_parts_differ() {
        let draw = |seed, part| {
            let mut random = Random::new(seed, part);
            (random.below(1_000_000), random.below(1_000_000))
        };
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
        let mut random = Random::new(1, "");
        assert_eq!((random.below(0), random.one::<u8>(&[])), (0, None));
    }
}
