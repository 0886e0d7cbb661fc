//! `agent_toolset_20260401`: the built-in tools, each with a switch and a policy.

use serde::{Deserialize, Serialize};

use super::{
    policy::{Builtin, Policy},
    url_sources::UrlSources,
    web::{FetchSettings, SearchSettings, Settings, UserLocation},
};
use crate::Problem;
use crate::read::{At, Object, Slot};

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
#[serde(from = "Flat")]
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
    /// What only this tool has.
    #[serde(flatten)]
    pub settings: Settings,
}

/// A stored entry with the settings of all tools side by side.
#[derive(Deserialize)]
struct Flat {
    name: Builtin,
    enabled: bool,
    permission_policy: Policy,
    #[serde(default)]
    allowed_domains: Option<Vec<String>>,
    #[serde(default)]
    blocked_domains: Option<Vec<String>>,
    #[serde(default)]
    max_content_tokens: Option<i64>,
    #[serde(default)]
    url_sources: Option<UrlSources>,
    #[serde(default)]
    user_location: Option<UserLocation>,
}

impl From<Flat> for ToolConfig {
    fn from(flat: Flat) -> Self {
        let settings = match flat.name {
            Builtin::WebFetch => Settings::Fetch(FetchSettings {
                allowed_domains: flat.allowed_domains,
                blocked_domains: flat.blocked_domains,
                max_content_tokens: flat.max_content_tokens,
                url_sources: flat.url_sources,
            }),
            Builtin::WebSearch => Settings::Search(SearchSettings {
                allowed_domains: flat.allowed_domains,
                blocked_domains: flat.blocked_domains,
                user_location: flat.user_location,
            }),
            Builtin::Bash
            | Builtin::Read
            | Builtin::Write
            | Builtin::Edit
            | Builtin::Glob
            | Builtin::Grep => Settings::None {},
        };
        Self {
            kind: flat.name,
            name: flat.name,
            enabled: flat.enabled,
            permission_policy: flat.permission_policy,
            settings,
        }
    }
}

impl AgentToolset {
    pub(super) fn parse(object: &mut Object<'_>) -> Result<Self, Problem> {
        let default_config = default_config(object.field("default_config"))?;
        let mut configs: Vec<ToolConfig> = Vec::new();
        if let Some(at) = object.field("configs").optional() {
            for item in at.items(0..=Builtin::ALL.len())? {
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
        self.configs
            .iter()
            .find_map(|config| match &config.settings {
                Settings::Fetch(fetch) => fetch.url_sources.as_ref(),
                Settings::Search(_) | Settings::None {} => None,
            })
    }
}

fn default_config(slot: Slot<'_>) -> Result<DefaultConfig, Problem> {
    let defaults = DefaultConfig::default();
    let Some(at) = slot.optional() else {
        return Ok(defaults);
    };
    let mut object = at.object()?;
    let config = switch(&mut object, defaults)?;
    object.finish()?;
    Ok(config)
}

fn switch(object: &mut Object<'_>, defaults: DefaultConfig) -> Result<DefaultConfig, Problem> {
    let enabled = object.field("enabled").optional();
    let policy = Policy::parse(object.field("permission_policy"))?;
    Ok(DefaultConfig {
        enabled: enabled
            .map(|at| at.boolean())
            .transpose()?
            .unwrap_or(defaults.enabled),
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
    let settings = Settings::parse(name, &mut object)?;
    object.finish()?;
    Ok(ToolConfig {
        kind: name,
        name,
        enabled: resolved.enabled,
        permission_policy: resolved.permission_policy,
        settings,
    })
}
