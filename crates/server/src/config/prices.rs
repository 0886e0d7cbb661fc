//! List prices beside those of models.

use serde::{Deserialize, Serialize};

use super::{Impossible, within};

/// List prices beside those of models, which stand with their facts.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Prices {
    /// Dollars for one hour of a running session.
    pub session_hour_usd: f64,
}

impl Prices {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        within(
            "prices.session_hour_usd",
            self.session_hour_usd,
            0.0..=1_000_000.0,
        )
    }

    /// Returns the price of one hour in nano-dollars.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to lie between 0 and a million dollars"
    )]
    pub fn hour(&self) -> u64 {
        (self.session_hour_usd * 1e9).round() as u64
    }
}
