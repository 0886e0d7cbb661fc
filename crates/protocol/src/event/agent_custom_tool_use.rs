//! `agent.custom_tool_use`: a call that the client answers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::ThreadId;

/// Body of `agent.custom_tool_use`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AgentCustomToolUse {
    /// The tool.
    pub name: String,
    /// Its input, keys in the model's order.
    pub input: Map<String, Value>,
    /// The child thread of a copy on the primary's stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_thread_id: Option<ThreadId>,
}
