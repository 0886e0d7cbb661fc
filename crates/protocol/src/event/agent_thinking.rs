//! `agent.thinking`: the model thought; what it thought is not shown.

use serde::{Deserialize, Serialize};

/// Body of `agent.thinking`: nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct AgentThinking {}
