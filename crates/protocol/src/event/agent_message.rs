//! `agent.message`: the text of one model response.

use serde::{Deserialize, Serialize};

use crate::content::TextBlock;

/// Body of `agent.message`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AgentMessage {
    /// The response's text blocks, in order.
    pub content: Vec<TextBlock>,
}
