//! Bytes that come in pieces: an occurrence may begin in one and end in another.

use super::{Scrubber, views};

/// Bytes that come in pieces, without secrets wherever the pieces are cut.
///
/// It holds back as much as an occurrence can be long; [`finish`](Self::finish) gives the rest.
#[derive(Debug)]
pub struct Stream {
    scrubber: Scrubber,
    held: Vec<u8>,
    /// The end of what went on, as it came: a line of digits may have begun there.
    before: Vec<u8>,
}

impl Stream {
    pub(super) fn new(scrubber: Scrubber) -> Self {
        Self {
            scrubber,
            held: Vec::new(),
            before: Vec::new(),
        }
    }

    /// Takes the next piece, and returns what is sure.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let Some(inner) = &self.scrubber.0 else {
            return piece.to_vec();
        };
        self.held.extend_from_slice(piece);
        let sure = self.held.len().saturating_sub(inner.reach);
        // One look per as many bytes as are held keeps the work linear.
        if sure < inner.reach {
            return Vec::new();
        }
        let found = inner.find(&self.held, &self.before);
        let mut end = views::unparted(&self.held, sure);
        let mut ranges = found.iter().map(|(range, _)| range);
        if let Some(range) = ranges.find(|range| range.start < end && range.end > end) {
            // What overlaps it may not be all here yet, so it waits, unless it is all that waits.
            end = if range.start > 0 {
                range.start
            } else {
                range.end
            };
        }
        let out = inner.marked(&self.held, 0..end, &found);
        self.before.extend(self.held.drain(..end));
        let old = self.before.len().saturating_sub(views::BEFORE);
        self.before.drain(..old);
        out
    }

    /// Returns what was held back.
    pub fn finish(self) -> Vec<u8> {
        let Some(inner) = &self.scrubber.0 else {
            return self.held;
        };
        let found = inner.find(&self.held, &self.before);
        inner.marked(&self.held, 0..self.held.len(), &found)
    }
}
