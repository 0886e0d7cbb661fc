//! `agent_toolset_20260401`: the built-in tools, each with a switch and a policy.

use serde::{Deserialize, Serialize};

use super::{
    policy::{Builtin, Policy},
    url_sources::UrlSources,
    web::WebSettings,
};
use crate::Problem;
use crate::read::{At, Object};

/// The entry of the built-in tools, resolved.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct AgentToolset {
    /// The entries a client sent, each resolved; a tool without one follows `default_config`.
    pub configs: Vec<ToolConfig>,
    /// What applies where no entry says otherwise.
    pub default_config: DefaultConfig,
}

/// What applies to a tool without an entry of its own.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DefaultConfig {
    /// Whether the tool exists for the agent.
    pub enabled: bool,
    /// When its calls may run.
    pub permission_policy: Policy,
}

impl Default for DefaultConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            permission_policy: Policy::AlwaysAllow,
        }
    }
}

/// The entry of one tool, resolved.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ToolConfig {
    /// The tool again.
    #[serde(rename = "type")]
    pub kind: Builtin,
    /// The tool.
    pub name: Builtin,
    /// Whether it exists for the agent.
    pub enabled: bool,
    /// When its calls may run.
    pub permission_policy: Policy,
    /// What only the web tools have.
    #[serde(flatten)]
    pub web: WebSettings,
}

impl AgentToolset {
    pub(super) fn parse(object: &mut Object<'_>) -> Result<Self, Problem> {
        let default_config = object.field("default_config").read(default_config)?;
        let default_config = default_config.unwrap_or_default();
        let mut configs: Vec<ToolConfig> = Vec::new();
        if let Some(at) = object.field("configs").optional() {
            for item in at.items(0..=Builtin::TABLE.len())? {
                let config = config(&item, default_config)?;
                if configs.iter().any(|other| other.name == config.name) {
                    return Err(item.refuse(format_args!(
                        "name: `{}` has an entry already; one entry per tool",
                        config.name.as_str()
                    )));
                }
                configs.push(config);
            }
        }
        Ok(Self {
            configs,
            default_config,
        })
    }

    /// Returns whether a tool is enabled, and its policy.
    pub fn lookup(&self, tool: Builtin) -> (bool, Policy) {
        match self.configs.iter().find(|config| config.name == tool) {
            Some(config) => (config.enabled, config.permission_policy),
            None => (
                self.default_config.enabled,
                self.default_config.permission_policy,
            ),
        }
    }

    pub(super) fn url_sources(&self) -> Option<&UrlSources> {
        let mut configs = self.configs.iter();
        configs.find_map(|config| config.web.url_sources.as_ref()?.as_ref())
    }
}

fn default_config(at: &At<'_>) -> Result<DefaultConfig, Problem> {
    let mut object = at.object()?;
    let config = switch(&mut object, DefaultConfig::default())?;
    object.finish()?;
    Ok(config)
}

fn switch(object: &mut Object<'_>, defaults: DefaultConfig) -> Result<DefaultConfig, Problem> {
    let enabled = object.field("enabled").read(At::boolean)?;
    let policy = object.field("permission_policy").read(Policy::parse)?;
    Ok(DefaultConfig {
        enabled: enabled.unwrap_or(defaults.enabled),
        permission_policy: policy.unwrap_or(defaults.permission_policy),
    })
}

fn config(at: &At<'_>, defaults: DefaultConfig) -> Result<ToolConfig, Problem> {
    let mut object = at.object()?;
    let name = object.field("name").required()?.word(Builtin::TABLE)?;
    if let Some(kind) = object.field("type").optional()
        && kind.word(Builtin::TABLE)? != name
    {
        return Err(kind.refuse(format_args!(
            "must equal `name`, which is `{}`",
            name.as_str()
        )));
    }
    let resolved = switch(&mut object, defaults)?;
    let web = WebSettings::parse(name, &mut object)?;
    object.finish()?;
    Ok(ToolConfig {
        kind: name,
        name,
        enabled: resolved.enabled,
        permission_policy: resolved.permission_policy,
        web,
    })
}
