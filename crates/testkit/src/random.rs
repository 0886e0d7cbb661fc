//! Randomness that a seed decides.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use outlast_protocol::seam::Entropy;

/// Draws the same bytes for the same seed and the same order of calls.
pub struct Seeded {
    reader: Mutex<blake3::OutputReader>,
    drawn: AtomicU64,
}

impl std::fmt::Debug for Seeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seeded")
            .field("drawn", &self.drawn)
            .finish_non_exhaustive()
    }
}

impl Seeded {
    /// Makes a source from a seed.
    pub fn new(seed: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"outlast-testkit-seed");
        hasher.update(&seed.to_be_bytes());
        Self {
            reader: Mutex::new(hasher.finalize_xof()),
            drawn: AtomicU64::new(0),
        }
    }

    /// Draws a number below `bound`; 0 if that is 0.
    pub fn below(&self, bound: u64) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_be_bytes(bytes).checked_rem(bound).unwrap_or(0)
    }
}

impl Entropy for Seeded {
    fn fill(&self, buffer: &mut [u8]) {
        self.drawn.fetch_add(1, Ordering::Relaxed);
        self.reader
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fill(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_everything() {
        let draw = |seed| {
            let source = Seeded::new(seed);
            (source.below(1_000_000), source.below(1_000_000))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(Seeded::new(1).below(0), 0);
    }
}
