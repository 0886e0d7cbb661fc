//! Bodies that were erased, until a record tells of it.

use std::collections::BTreeMap;

use outlast_session::{body::Erased, chain};

use crate::{Damage, Damaged};

/// Holes of a log by position.
#[derive(Clone, Debug, Default)]
pub(super) struct Holes(BTreeMap<u64, Hole>);

#[derive(Clone, Copy, Debug)]
struct Hole {
    /// A digest of what is left.
    left: [u8; 32],
    told: bool,
}

fn digest(left: &str) -> [u8; 32] {
    chain::digest(&[0; 16], left)
}

impl Holes {
    /// Notes a body that was erased, and what is left of it.
    pub(super) fn found(&mut self, position: u64, left: &str) {
        let (left, told) = (digest(left), false);
        self.0.insert(position, Hole { left, told });
    }

    /// Hears what was erased; the same may be told twice.
    pub(super) fn told(&mut self, erased: &Erased) -> Result<(), Damaged> {
        for remains in &erased.erased {
            let position = remains.position;
            let hole = self.0.get_mut(&position);
            let hole = hole.ok_or_else(|| Damage::Restored.at(position))?;
            if hole.left != digest(remains.body.get()) {
                return Err(Damage::Remains.at(position));
            }
            hole.told = true;
        }
        Ok(())
    }

    /// Returns the first one that no record told of.
    pub(super) fn untold(&self) -> Option<u64> {
        let mut holes = self.0.iter();
        let untold = holes.find(|(_, hole)| !hole.told);
        untold.map(|(position, _)| *position)
    }
}
