//! Randomness that a seed decides, or none at all.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use outlast_protocol::seam::Entropy;

/// Draws the same bytes for the same seed and the same order of calls.
///
/// Whoever draws beside others takes a [branch](Seeded::branch): what one draws is then no matter
/// of when the others do.
pub struct Seeded {
    root: blake3::Hasher,
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
        Self::rooted(hasher)
    }

    fn rooted(root: blake3::Hasher) -> Self {
        Self {
            reader: Mutex::new(root.finalize_xof()),
            root,
            drawn: AtomicU64::new(0),
        }
    }

    /// Makes a source of its own for a part that has a name; it depends on the seed alone.
    pub fn branch(&self, name: &str) -> Self {
        let mut root = self.root.clone();
        root.update(b"/").update(name.as_bytes());
        Self::rooted(root)
    }

    /// Draws `true` so many times of a hundred.
    pub fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Draws one of some; `None` if there are none.
    pub fn pick<'a, T>(&self, from: &'a [T]) -> Option<&'a T> {
        let bound = u64::try_from(from.len()).unwrap_or(u64::MAX);
        from.get(usize::try_from(self.below(bound)).unwrap_or(usize::MAX))
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

/// Draws this byte and no other: for ids that are told apart by something else, or need not be.
#[derive(Clone, Copy, Debug)]
pub struct Constant(pub u8);

impl Entropy for Constant {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(self.0);
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
        assert_eq!(Seeded::new(1).pick::<u8>(&[]), None);
    }

    #[test]
    fn a_branch_is_no_matter_of_what_others_drew() {
        let (fresh, used) = (Seeded::new(1), Seeded::new(1));
        used.below(9);
        let draw = |source: &Seeded, name| source.branch(name).below(1_000_000);
        assert_eq!(draw(&fresh, "a"), draw(&used, "a"));
        assert_ne!(draw(&fresh, "a"), draw(&fresh, "b"));
        assert_ne!(draw(&fresh, "a"), fresh.below(1_000_000));
    }
}
