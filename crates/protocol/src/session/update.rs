//! Requests that update sessions.

use serde_json::Value;

use crate::agent::Tools;
use crate::metadata::{self, EmptyValue, MetadataPatch};
use crate::read::{At, Patch, Slot};
use crate::{Problem, limits};

/// A checked request to update a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpdateSession {
    /// Another title, or none.
    pub title: Patch<String>,
    /// Changes to the client's own pairs.
    pub metadata: MetadataPatch,
    /// Other tools, or none; from the next turn on, and only while the session is idle.
    pub tools: Patch<Tools>,
}

impl UpdateSession {
    /// Reads the body of `POST /v1/sessions/{id}`.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::root(body).object()?;
        let title = object.field("title").patch();
        let update = Self {
            title: title.try_map(|at| at.string(0..=limits::TITLE))?,
            metadata: metadata::patch(object.field("metadata"), EmptyValue::Kept)?,
            tools: tools(object.field("agent"))?,
        };
        // The API takes vaults of a session at its creation only, and keeps the field for later.
        for later in ["vault_ids", "budget"] {
            object.field(later).not_supported()?;
        }
        object.finish()?;
        Ok(update)
    }
}

fn tools(slot: Slot<'_>) -> Result<Patch<Tools>, Problem> {
    let Some(agent) = slot.optional() else {
        return Ok(Patch::Keep);
    };
    let mut object = agent.object()?;
    let tools = object.field("tools").patch();
    let tools = tools.try_map(|at| Tools::parse(&at))?;
    object.field("mcp_servers").not_supported()?;
    object.finish()?;
    Ok(tools)
}
