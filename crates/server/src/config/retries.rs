//! How failures of the model are retried.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Impossible, within};

/// How failures of the model are retried.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Retries {
    /// Retries of one request before the turn is given up.
    pub most: u32,
    /// The wait before the first one; doubled each time.
    pub first_seconds: f64,
    /// The longest wait of our own choice.
    pub longest_seconds: f64,
}

impl Default for Retries {
    fn default() -> Self {
        let retries = outlast_harness::Retries::default();
        Self {
            most: retries.most,
            first_seconds: retries.first.as_secs_f64(),
            longest_seconds: retries.longest.as_secs_f64(),
        }
    }
}

impl Retries {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        within("retries.most", self.most, 0..=1_000)?;
        within("retries.first_seconds", self.first_seconds, 0.001..=3_600.0)?;
        within(
            "retries.longest_seconds",
            self.longest_seconds,
            0.001..=86_400.0,
        )
    }

    /// Returns them as our loop takes them.
    pub fn options(&self) -> outlast_harness::Retries {
        outlast_harness::Retries {
            most: self.most,
            first: Duration::from_secs_f64(self.first_seconds),
            longest: Duration::from_secs_f64(self.longest_seconds),
        }
    }
}
