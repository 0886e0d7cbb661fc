//! Bytes that come in pieces: an occurrence may begin in one and end in another.

use super::Scrubber;

/// Bytes that come in pieces, without secrets wherever the pieces are cut.
///
/// It holds back as much as an occurrence can be long; [`finish`](Self::finish) gives the rest.
#[derive(Debug)]
pub struct Stream {
    scrubber: Scrubber,
    held: Vec<u8>,
}

impl Stream {
    pub(super) fn new(scrubber: Scrubber) -> Self {
        Self {
            scrubber,
            held: Vec::new(),
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
        let found = inner.find(&self.held);
        let mut end = unsplit(&self.held, sure);
        for (range, _) in &found {
            if range.start < end && range.end > end {
                end = range.end;
            }
        }
        let out = inner.marked(&self.held, 0..end, &found);
        self.held.drain(..end);
        out
    }

    /// Returns what was held back.
    pub fn finish(self) -> Vec<u8> {
        self.scrubber.bytes(&self.held).into_owned()
    }
}

/// Moves an end back to where no escape is parted.
fn unsplit(bytes: &[u8], mut end: usize) -> usize {
    let is = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
    for back in [2, 1] {
        if end >= back && is(end - back, b'%') {
            end -= back;
        }
    }
    while end > 0 && is(end - 1, b'\\') {
        end -= 1;
    }
    end
}
