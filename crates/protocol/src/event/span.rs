//! `span.model_request_*`: one request to the model.

use serde::{Deserialize, Serialize};

use crate::{agent::Speed, id::EventId};

/// Body of `span.model_request_start`: nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ModelRequestStart {}

/// Body of `span.model_request_end`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ModelRequestEnd {
    /// The start event.
    pub model_request_start_id: EventId,
    /// Whether it failed.
    pub is_error: bool,
    /// What it used; zeros where nobody can say.
    pub model_usage: ModelUsage,
}

/// Tokens of one model request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ModelUsage {
    /// Input that came from no cache.
    pub input_tokens: u64,
    /// Output.
    pub output_tokens: u64,
    /// Input written to a cache.
    pub cache_creation_input_tokens: u64,
    /// Input read from a cache.
    pub cache_read_input_tokens: u64,
    /// The speed it ran at; only where fast mode is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
}
