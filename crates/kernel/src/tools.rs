//! The tools that a thread's brain may offer its model.

use outlast_protocol::agent::tools::Builtin;
use outlast_session::State;
use serde_json::value::RawValue;

use crate::Lease;

/// A tool as a model is told of it.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its input.
    pub input_schema: Box<RawValue>,
}

impl Lease {
    /// Returns the tools of the thread in a stable order: those of its hand, then the client's.
    ///
    /// Tools that are switched off, and those that this server does not run, are not among them.
    pub fn tools(&self, state: &State) -> Vec<Tool> {
        let Some(config) = &state.config else {
            return Vec::new();
        };
        let tools = &config.agent.tools;
        let offered = tools.offered();
        let builtin = offered
            .iter()
            .filter_map(|name| Builtin::parse(name))
            .filter_map(standard);
        let custom = tools.custom().map(|custom| Tool {
            name: custom.name.clone(),
            description: custom.description.clone(),
            input_schema: raw(&custom.input_schema),
        });
        builtin.chain(custom).collect()
    }
}

/// Returns what the hand says of a standard tool.
fn standard(tool: Builtin) -> Option<Tool> {
    let found = outlast_hands::STANDARD
        .iter()
        .find(|known| known.name == tool.as_str())?;
    Some(Tool {
        name: found.name.to_owned(),
        description: found.description.to_owned(),
        input_schema: raw(&found.input_schema()),
    })
}

fn raw(schema: &impl serde::Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(schema).unwrap_or_default()
}
