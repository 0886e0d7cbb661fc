//! Who did what, and for how long that is known.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Impossible, within};

/// The audit log.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Audit {
    /// After how many days an entry goes; absent, none ever goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_days: Option<u32>,
}

impl Audit {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        match self.keep_days {
            Some(days) => within("audit.keep_days", u64::from(days), 1..=36_500),
            None => Ok(()),
        }
    }

    /// Returns how long an entry is kept.
    pub fn kept(&self) -> Option<Duration> {
        let days = |days: u32| Duration::from_secs(u64::from(days) * 24 * 60 * 60);
        self.keep_days.map(days)
    }
}
