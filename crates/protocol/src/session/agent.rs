//! The agent of a session: a copy, with the session's overrides.

use serde::{Deserialize, Serialize, Serializer, ser::Error as _};
use serde_json::Value;

use super::Overrides;
use crate::Problem;
use crate::agent::{Agent, ExecutionIdentity, Model, Tools};
use crate::facts::Models;
use crate::id::AgentId;
use crate::read::Patch;

/// What a session runs: stored with it, shown with it, independent of later versions.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "agent")]
pub struct AgentSnapshot {
    /// The agent it was copied from.
    pub id: AgentId,
    /// What it does, for people.
    pub description: Option<String>,
    /// Who its runs act as; stored and shown.
    pub execution_identity: ExecutionIdentity,
    /// Always empty: this server does not reach MCP servers yet.
    pub mcp_servers: Vec<Value>,
    /// The model, resolved.
    pub model: Model,
    /// Always null: a session has one thread for now.
    pub multiagent: Option<Value>,
    /// What people call it.
    pub name: String,
    /// Always empty: this server has no skills yet.
    pub skills: Vec<Value>,
    /// The system prompt.
    pub system: Option<String>,
    /// The tools, resolved.
    pub tools: Tools,
    /// The version it was copied from.
    pub version: u32,
}

impl AgentSnapshot {
    /// Copies an agent and lays the overrides over it; id and version name the agent still.
    ///
    /// Overrides that were left out inherit, null clears, a value replaces. A model override runs
    /// at that model's own effort.
    pub fn from_agent(
        agent: &Agent,
        overrides: &Overrides,
        models: &dyn Models,
    ) -> Result<Self, Problem> {
        let model = match &overrides.model {
            Some(request) => request.resolve_override(models)?,
            None => agent.model.clone(),
        };
        Ok(Self {
            id: agent.id,
            description: agent.description.clone(),
            execution_identity: agent.execution_identity.clone(),
            mcp_servers: agent.mcp_servers.clone(),
            model,
            multiagent: agent.multiagent.clone(),
            name: agent.name.clone(),
            skills: agent.skills.clone(),
            system: overrides.system.clone().over(agent.system.clone()),
            tools: match &overrides.tools {
                Patch::Keep => agent.tools.clone(),
                Patch::Clear => Tools::default(),
                Patch::Set(tools) => tools.clone(),
            },
            version: agent.version,
        })
    }

    /// Returns the agent of a thread: the same without the roster.
    pub fn thread_agent(&self) -> ThreadAgent {
        ThreadAgent(self.clone())
    }
}

/// What a thread runs: shown like the session's agent, but without `multiagent`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(transparent)]
pub struct ThreadAgent(pub AgentSnapshot);

impl Serialize for ThreadAgent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serde_json::to_value(&self.0).map_err(S::Error::custom)?;
        if let Some(fields) = fields.as_object_mut() {
            fields.shift_remove("multiagent");
        }
        fields.serialize(serializer)
    }
}
