//! What a session changes of the agent it is created from.

use crate::agent::{self, ModelRequest, Tools};
use crate::read::{Object, Patch};
use crate::{ErrorCode, Problem, limits};

/// The overrides of an `agent_with_overrides`; by default none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// Another model.
    pub model: Option<ModelRequest>,
    /// Another system prompt, or none.
    pub system: Patch<String>,
    /// Other tools, or none.
    pub tools: Patch<Tools>,
}

impl Overrides {
    pub(super) fn parse(object: &mut Object<'_>) -> Result<Self, Problem> {
        let model = match object.field("model").patch() {
            Patch::Keep => None,
            Patch::Set(at) => Some(ModelRequest::parse(&at)?),
            Patch::Clear => {
                return Err(Problem::new(
                    ErrorCode::AgentModelRequired,
                    "agent.model: agent_model_required: a session needs a model; leave it out to use the agent's",
                ));
            }
        };
        let system = object.field("system").patch();
        let tools = object.field("tools").patch();
        let overrides = Self {
            model,
            system: system.try_map(|at| at.string(0..=limits::SYSTEM))?,
            tools: tools.try_map(|at| Tools::parse(&at))?,
        };
        agent::refuse_later_parts(object)?;
        Ok(overrides)
    }
}
