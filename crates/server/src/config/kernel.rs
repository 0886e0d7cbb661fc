//! The kernel's bounds.

use std::time::Duration;

use outlast_kernel::{Beater, Beats};
use outlast_session::Rules;
use serde::{Deserialize, Serialize};

use super::{Impossible, Prices, within};

/// Bounds of what runs and what waits.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Kernel {
    /// Turns that run at once.
    pub brains: usize,
    /// Starts of a turn without progress before it is worked on alone; as many again park it.
    pub attempts: u32,
    /// Inputs that may wait in one session.
    pub queue: usize,
    /// Responses with calls in one turn.
    pub rounds: u32,
    /// Seconds without a beat after which a process is declared dead by others.
    pub process_seconds: u64,
}

impl Default for Kernel {
    fn default() -> Self {
        let rules = Rules::default();
        Self {
            brains: 64,
            attempts: rules.attempts,
            queue: rules.queue,
            rounds: rules.rounds,
            process_seconds: 15,
        }
    }
}

impl Kernel {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        within("kernel.brains", self.brains, 1..=100_000)?;
        within("kernel.attempts", self.attempts, 1..=1_000)?;
        within("kernel.queue", self.queue, 1..=1_000_000)?;
        within("kernel.rounds", self.rounds, 1..=1_000_000)?;
        within("kernel.process_seconds", self.process_seconds, 2..=3_600)
    }

    /// Returns how a process says that it lives where others use its database too.
    pub fn beats(&self) -> Beats {
        Beats {
            bound: Duration::from_secs(self.process_seconds),
            by: Beater::Thread,
        }
    }

    /// Returns the bounds that `admit` keeps.
    pub fn rules(&self, prices: &Prices) -> Rules {
        Rules {
            rounds: self.rounds,
            queue: self.queue,
            attempts: self.attempts,
            hour_price: prices.hour(),
            ..Rules::default()
        }
    }
}
