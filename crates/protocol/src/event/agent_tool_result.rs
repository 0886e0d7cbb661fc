//! `agent.tool_result`: what a built-in tool returned, or why it did not run.

use serde::{Deserialize, Serialize};

use crate::{CallResult, content::Block, id::EventId};

/// Body of `agent.tool_result`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AgentToolResult {
    /// The call.
    pub tool_use_id: EventId,
    /// What the model reads.
    pub content: Vec<Block>,
    /// Whether the model should take it as a failure.
    pub is_error: bool,
}

impl AgentToolResult {
    /// Makes the result of `call`; the outcome is not part of the public event.
    pub fn new(call: EventId, result: CallResult) -> Self {
        Self {
            tool_use_id: call,
            content: result.content,
            is_error: result.is_error,
        }
    }
}
