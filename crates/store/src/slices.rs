//! What reading a slice is made of, whatever the tables.

use outlast_session::Kind;

use crate::{Slice, deciding::has_event, stored::Stored};

/// Tells whether records of a kind have a place in the index of kinds: events, and responses, so
/// that a conversation can be read out of a log that is long for other reasons.
fn is_indexed(kind: Kind) -> bool {
    has_event(kind) || kind == Kind::Response
}

/// Tells whether a slice is picked out of the index of kinds, and not read along positions.
pub(crate) fn is_picked(slice: &Slice) -> bool {
    let indexed = slice.public || slice.kinds.iter().all(|kind| is_indexed(*kind));
    indexed && !slice.kinds.is_empty()
}

/// Records until the page is full.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) records: Vec<Stored>,
    size: usize,
    limit: usize,
    used: usize,
}

impl Page {
    pub(crate) fn of(slice: &Slice) -> Self {
        Self {
            records: Vec::new(),
            size: slice.bytes,
            limit: slice.limit,
            used: 0,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.records.len() < self.limit
    }

    /// Adds a record, if there is room for it.
    pub(crate) fn add(&mut self, stored: Stored) -> bool {
        let size = stored.size();
        let full = self.size > 0 && self.used + size > self.size && !self.records.is_empty();
        if full || self.records.len() >= self.limit {
            return false;
        }
        self.used += size;
        self.records.push(stored);
        true
    }
}
