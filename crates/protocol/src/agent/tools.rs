//! The tools of an agent: what a client may configure, and what the kernel asks about a call.

mod custom;
mod domain;
mod policy;
mod toolset;
mod url_sources;
mod web;

use serde::{Deserialize, Serialize};

use crate::read::At;
use crate::words::words;
use crate::{ErrorCode, Problem, limits};

pub use custom::CustomTool;
pub use policy::{Builtin, Gate, Policy};
pub use toolset::{AgentToolset, DefaultConfig, ToolConfig};
pub use url_sources::{ToolFilter, ToolReference, UrlSources, UserInput};
pub use web::{UserLocation, WebSettings};

/// The `tools` of an agent, resolved; in the order they were sent.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Tools(Vec<Tool>);

/// One entry of `tools`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum Tool {
    /// The built-in tools; at most one entry.
    #[serde(rename = "agent_toolset_20260401")]
    Builtin(AgentToolset),
    /// A tool that the client runs.
    #[serde(rename = "custom")]
    Custom(CustomTool),
}

words! {
    /// The kinds of entry.
    enum Kind {
        Builtin = "agent_toolset_20260401",
        Custom = "custom",
        Mcp = "mcp_toolset",
    }
}

impl Tools {
    /// Reads a `tools` array.
    pub fn parse(at: &At<'_>) -> Result<Self, Problem> {
        let items = at.items(0..=limits::TOOLS)?;
        let tools = Self(items.iter().map(tool).collect::<Result<_, _>>()?);
        tools.check_names(&items)?;
        tools.check_url_sources(at)?;
        Ok(tools)
    }

    /// Returns the entries.
    pub fn entries(&self) -> &[Tool] {
        &self.0
    }

    /// Returns the custom tools, in their order.
    pub fn custom(&self) -> impl Iterator<Item = &CustomTool> {
        self.0.iter().filter_map(|tool| match tool {
            Tool::Custom(custom) => Some(custom),
            Tool::Builtin(_) => None,
        })
    }

    /// Returns the toolset of the built-in tools, if it is configured.
    pub fn builtin(&self) -> Option<&AgentToolset> {
        self.0.iter().find_map(|tool| match tool {
            Tool::Builtin(toolset) => Some(toolset),
            Tool::Custom(_) => None,
        })
    }

    /// Tells what a call of `name` needs before it may run.
    pub fn gate(&self, name: &str) -> Gate {
        if self.custom().any(|custom| custom.name == name) {
            return Gate::Custom;
        }
        let Some(builtin) = Builtin::parse(name) else {
            return Gate::Unknown;
        };
        match self.builtin().map(|toolset| toolset.lookup(builtin)) {
            Some((true, policy)) => Gate::Builtin { policy },
            Some((false, _)) => Gate::Disabled,
            None => Gate::Unknown,
        }
    }

    /// Returns the names to offer to a model, in a stable order: built-in ones, then custom ones.
    ///
    /// The web tools are accepted in configurations but never offered: this server does not run
    /// them yet.
    pub fn offered(&self) -> Vec<&str> {
        let builtin = self.builtin().into_iter().flat_map(|toolset| {
            Builtin::TABLE
                .iter()
                .filter(|(_, tool)| !tool.is_web() && toolset.lookup(*tool).0)
                .map(|(name, _)| *name)
        });
        builtin
            .chain(self.custom().map(|custom| custom.name.as_str()))
            .collect()
    }

    fn check_names(&self, items: &[At<'_>]) -> Result<(), Problem> {
        let mut toolset = false;
        let mut names = std::collections::HashSet::new();
        for (tool, at) in self.0.iter().zip(items) {
            match tool {
                Tool::Builtin(_) if toolset => {
                    return Err(at.refuse("at most one `agent_toolset_20260401` per agent"));
                }
                Tool::Builtin(_) => toolset = true,
                Tool::Custom(custom) if !names.insert(custom.name.as_str()) => {
                    return Err(at.refuse(format_args!(
                        "name: `{}` is the name of another tool of this agent; names must be unique",
                        custom.name
                    )));
                }
                Tool::Custom(_) => {}
            }
        }
        Ok(())
    }

    fn check_url_sources(&self, at: &At<'_>) -> Result<(), Problem> {
        let custom: Vec<&str> = self.custom().map(|tool| tool.name.as_str()).collect();
        match self.builtin().and_then(AgentToolset::url_sources) {
            Some(sources) => sources.check_names(at, &custom),
            None => Ok(()),
        }
    }
}

fn tool(at: &At<'_>) -> Result<Tool, Problem> {
    let mut object = at.object()?;
    let kind = object.field("type").required()?;
    let tool = match kind.word(Kind::TABLE)? {
        Kind::Builtin => Tool::Builtin(AgentToolset::parse(&mut object)?),
        Kind::Custom => Tool::Custom(CustomTool::parse(&mut object)?),
        Kind::Mcp => {
            return Err(kind.problem(
                ErrorCode::NotSupported,
                "not_supported: this server does not reach MCP servers yet",
            ));
        }
    };
    object.finish()?;
    Ok(tool)
}

#[cfg(test)]
mod tests;
