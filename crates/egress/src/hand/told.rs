//! How many refusals of a hand the audit log is told of.

use std::time::Duration;

use tokio::time::Instant;

/// So many within a minute: whoever asks in a loop would fill the log, and the disk that all write to.
const MOST: u32 = 120;

/// How long they are counted for.
const WINDOW: Duration = Duration::from_secs(60);

/// Counts the refusals of a hand.
#[derive(Debug, Default)]
pub(crate) struct Told {
    since: Option<Instant>,
    count: u32,
}

/// What is told of a refusal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Tell {
    /// All of it.
    This,
    /// That more follow, of which nothing is told for a while.
    More,
    /// Nothing.
    Nothing,
}

impl Told {
    /// Counts one more.
    pub(crate) fn next(&mut self, now: Instant) -> Tell {
        if self.since.is_none_or(|since| now - since >= WINDOW) {
            (self.since, self.count) = (Some(now), 0);
        }
        self.count = self.count.saturating_add(1);
        match self.count {
            ..=MOST => Tell::This,
            count if count == MOST + 1 => Tell::More,
            _ => Tell::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_once_a_minute() {
        let (mut told, now) = (Told::default(), Instant::now());
        for _ in 0..MOST {
            assert_eq!(told.next(now), Tell::This);
        }
        assert_eq!(told.next(now), Tell::More);
        assert_eq!(told.next(now + WINDOW / 2), Tell::Nothing);
        assert_eq!(told.next(now + WINDOW), Tell::This);
    }
}
