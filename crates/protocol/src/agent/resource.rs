//! The agent as it is stored and shown.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ExecutionIdentity, Model, Tools};
use crate::{Metadata, Micros, id::AgentId};

/// One version of an agent.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "agent")]
pub struct Agent {
    /// Its id, the same for all versions.
    pub id: AgentId,
    /// When it was archived; an archived agent never changes again.
    pub archived_at: Option<Micros>,
    /// When its first version was made.
    pub created_at: Micros,
    /// What it does, for people.
    pub description: Option<String>,
    /// Who its runs act as; stored and shown.
    pub execution_identity: ExecutionIdentity,
    /// Always empty: this server does not reach MCP servers yet.
    pub mcp_servers: Vec<Value>,
    /// The client's own pairs.
    pub metadata: Metadata,
    /// The model, resolved.
    pub model: Model,
    /// Always null: an agent has one thread for now.
    pub multiagent: Option<Value>,
    /// What people call it.
    pub name: String,
    /// Always empty: this server has no skills yet.
    pub skills: Vec<Value>,
    /// The system prompt.
    pub system: Option<String>,
    /// The tools, resolved.
    pub tools: Tools,
    /// When this version was made.
    pub updated_at: Micros,
    /// Counts from 1.
    pub version: u32,
}
