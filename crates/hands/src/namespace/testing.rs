//! What tests of several files need.

use outlast_protocol::{Micros, id::EventId, seam::Entropy};

#[derive(Debug)]
struct Fixed(u8);

impl Entropy for Fixed {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(self.0);
    }
}

/// The call of a number.
pub(super) fn call(number: u8) -> EventId {
    EventId::mint(Micros(1), &Fixed(number))
}
