//! Ids that the store draws while a proposal is decided.

use outlast_protocol::{Micros, id::EventId, seam::Entropy};
use outlast_session::Ids;

/// Draws event ids of one moment and remembers them.
#[derive(Debug)]
pub struct Minter<'a> {
    at: Micros,
    entropy: &'a dyn Entropy,
    minted: Vec<EventId>,
}

impl<'a> Minter<'a> {
    /// Makes a source of ids of the moment `at`.
    pub fn new(at: Micros, entropy: &'a dyn Entropy) -> Self {
        Self {
            at,
            entropy,
            minted: Vec::new(),
        }
    }

    /// Returns what was drawn.
    pub(crate) fn into_drawn(self) -> Vec<EventId> {
        self.minted
    }

    /// Tells whether an id was drawn here, and so cannot stand in the log yet.
    pub fn drew(&self, id: EventId) -> bool {
        self.minted.contains(&id)
    }
}

impl Ids for Minter<'_> {
    fn event(&mut self) -> EventId {
        let id = EventId::mint(self.at, self.entropy);
        self.minted.push(id);
        id
    }
}
