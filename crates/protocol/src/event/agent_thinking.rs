//! `agent.thinking`: the model thought; what it thought is not shown.

use serde::{Deserialize, Serialize};

use super::{Body, Kind};

/// Body of `agent.thinking`: nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct AgentThinking {}

impl Body for AgentThinking {
    fn kind(&self) -> Kind {
        Kind::AgentThinking
    }
}
