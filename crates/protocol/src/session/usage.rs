//! Figures of what a session or thread used.

use serde::{Deserialize, Serialize};

/// Cumulative usage; also the body of `session.usage`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Usage {
    /// Input that came from no cache.
    pub input_tokens: u64,
    /// Output.
    pub output_tokens: u64,
    /// Input read from a cache.
    pub cache_read_input_tokens: u64,
    /// Input written to a cache.
    pub cache_creation: CacheCreation,
    /// Requests of tools that the model's provider runs.
    pub server_tool_use: ServerToolUse,
    /// Seconds in which at least one thread ran; of a thread: its own.
    pub active_seconds: f64,
    /// What it costs at list prices; absent where a model has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_cost: Option<Money>,
}

/// Input written to a cache, by how long it lives.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct CacheCreation {
    /// For five minutes.
    pub ephemeral_5m_input_tokens: u64,
    /// For one hour.
    pub ephemeral_1h_input_tokens: u64,
}

/// Requests of tools that the model's provider runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ServerToolUse {
    /// Searches.
    pub web_search_requests: u64,
    /// Fetches.
    pub web_fetch_requests: u64,
}

/// An amount of money.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Money {
    /// Whole minor units as decimal digits: `"2500"` is 25 dollars.
    pub amount: String,
    /// ISO 4217, in capitals.
    pub currency: String,
}

impl Money {
    /// Makes an amount of dollars from nano-dollars, rounded to the nearest cent.
    pub fn from_nano_dollars(nano: u64) -> Self {
        const CENT: u64 = 10_000_000;
        let cents = nano.saturating_add(CENT / 2) / CENT;
        Self {
            amount: cents.to_string(),
            currency: "USD".to_owned(),
        }
    }
}
