//! The kernel's bounds.

use outlast_session::Rules;
use serde::{Deserialize, Serialize};

use super::{Impossible, Prices, within};

/// Bounds of what runs and what waits.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Kernel {
    /// Turns that run at once.
    pub brains: usize,
    /// Starts of a turn without progress before it is given up.
    pub attempts: u32,
    /// Inputs that may wait in one session.
    pub queue: usize,
    /// Responses with calls in one turn.
    pub rounds: u32,
}

impl Default for Kernel {
    fn default() -> Self {
        let rules = Rules::default();
        Self {
            brains: 64,
            attempts: 5,
            queue: rules.queue,
            rounds: rules.rounds,
        }
    }
}

impl Kernel {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        within("kernel.brains", self.brains, 1..=100_000)?;
        within("kernel.attempts", self.attempts, 1..=1_000)?;
        within("kernel.queue", self.queue, 1..=1_000_000)?;
        within("kernel.rounds", self.rounds, 1..=1_000_000)
    }

    /// Returns the bounds that `admit` keeps.
    pub fn rules(&self, prices: &Prices) -> Rules {
        Rules {
            rounds: self.rounds,
            queue: self.queue,
            hour_price: prices.hour(),
            ..Rules::default()
        }
    }
}
