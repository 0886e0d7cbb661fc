//! Files of clients and agents.

use serde::{Deserialize, Serialize};

use super::{Impossible, within};

/// Bounds of files.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Files {
    /// How large one may be.
    pub largest_mib: u64,
    /// How much all that agents leave in one session may be.
    pub outputs_mib: u64,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            largest_mib: 5_120,
            outputs_mib: 10_240,
        }
    }
}

impl Files {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        within("files.largest_mib", self.largest_mib, 1..=16_777_216)?;
        within("files.outputs_mib", self.outputs_mib, 1..=16_777_216)
    }

    /// Returns how many bytes one may have.
    pub fn largest(&self) -> u64 {
        self.largest_mib << 20
    }

    /// Returns how many bytes all outputs of a session may have.
    pub fn outputs(&self) -> u64 {
        self.outputs_mib << 20
    }
}
