//! `session.status_*`: the session as a whole runs, waits, retries or is over.

use serde::{Deserialize, Serialize};

use super::{StopDetails, StopReason};

/// Body of `session.status_running`: nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct StatusRunning {}

/// Body of `session.status_rescheduled`: nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct StatusRescheduled {}

/// Body of `session.status_terminated`: nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct StatusTerminated {}

/// Body of `session.status_idle`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct StatusIdle {
    /// Why.
    pub stop_reason: StopReason,
    /// More on a refusal; null otherwise.
    #[serde(default)]
    pub stop_details: Option<StopDetails>,
}
