//! Why a session or thread went idle.

use serde::{Deserialize, Serialize};

use crate::id::EventId;

/// The `stop_reason` of an idle event.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StopReason {
    /// The turn came to its end, or was interrupted.
    EndTurn,
    /// Calls wait for the client.
    RequiresAction {
        /// The tool-use events that wait, oldest first.
        event_ids: Vec<EventId>,
    },
    /// Errors used up the retries.
    RetriesExhausted,
    /// The budget is spent.
    BudgetReached,
    /// The model refused; see [`StopDetails`].
    Refusal,
}

/// The `stop_details` beside [`StopReason::Refusal`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "refusal")]
pub struct StopDetails {
    /// The policy category; null where it has no name. The set of values is open.
    #[serde(default)]
    pub category: Option<String>,
    /// Words for a person.
    #[serde(default)]
    pub explanation: Option<String>,
}
