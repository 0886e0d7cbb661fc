//! What is known about each model id: one embedded table that configuration overrides.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod cost;
mod entry;

pub use cost::{LongPrompt, Prices};
use entry::Entry;

/// The embedded table.
const EMBEDDED: &str = include_str!("facts.toml");

/// How hard a model tries.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// As little as will do.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// More than much, for long work.
    Xhigh,
    /// All there is.
    Max,
}

impl Effort {
    /// Returns the wire's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// How a model is asked to think.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Thinking {
    /// It is not asked; a request has no `thinking`.
    #[default]
    None,
    /// `{"type": "enabled", "budget_tokens": ...}`.
    Budget,
    /// `{"type": "adaptive"}`, and it can be switched off.
    Adaptive,
    /// It always thinks; `{"type": "adaptive"}` is the only form it takes.
    Always,
}

/// What is known about one model.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct ModelFacts {
    /// The context window, in tokens.
    pub window: u64,
    /// The most output tokens of one response.
    pub max_output: u64,
    /// The effort it takes when a request names none; `None` if it takes no effort.
    pub default_effort: Option<Effort>,
    /// The efforts it takes; empty if it takes none.
    pub efforts: Vec<Effort>,
    /// How it is asked to think.
    pub thinking: Thinking,
    /// Whether it takes `role: "system"` messages in the middle of a conversation.
    pub mid_conversation_system: bool,
    /// Whether it takes `speed: "fast"`.
    pub fast: bool,
    /// Whether it takes `inference_geo`.
    pub inference_geo: bool,
    /// The least cacheable prefix, in tokens, where known.
    pub cache_min: Option<u64>,
    /// List prices, where known.
    pub prices: Option<Prices>,
    /// List prices of fast mode, where known.
    pub fast_prices: Option<Prices>,
    /// List prices of long prompts, where they differ.
    pub long_prompt: Option<LongPrompt>,
}

/// A facts table cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadFacts {
    /// It is no TOML, or has a key or value it may not have.
    #[error("the table of model facts cannot be read: {reason}")]
    Unreadable {
        /// What is wrong, naming the key and its line.
        reason: String,
    },
    /// What it says of a model contradicts itself.
    #[error("the facts of model `{model}` are not possible: {reason}")]
    Impossible {
        /// The model's key.
        model: String,
        /// What contradicts what.
        reason: &'static str,
    },
}

/// The table.
#[derive(Clone, Debug)]
pub struct Facts {
    default: Entry,
    models: BTreeMap<String, Entry>,
}

/// The file's form.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    default: Entry,
    #[serde(default)]
    models: BTreeMap<String, Entry>,
}

impl Facts {
    /// Reads the embedded table and lays `override_toml`, in the same form, over it.
    ///
    /// A field that the override names replaces the table's for that key; the others stay. A key
    /// of its own starts from what the table says of that id.
    ///
    /// # Errors
    /// If the override has a key it may not have, which is named, or says what cannot be.
    pub fn load(override_toml: Option<&str>) -> Result<Self, BadFacts> {
        let embedded = parse(EMBEDDED)?;
        let mut facts = Self {
            default: embedded.default,
            models: embedded.models,
        };
        if let Some(text) = override_toml {
            let over = parse(text)?;
            facts.default.take_over(&over.default);
            for (key, entry) in over.models {
                facts.models.entry(key).or_default().take_over(&entry);
            }
        }
        for key in facts.models.keys() {
            let sample = key.strip_suffix('*').unwrap_or(key);
            check(sample, &facts.of(sample))?;
        }
        check("default", &facts.of("default"))?;
        Ok(facts)
    }

    /// Returns what is known about `model`; of an unknown id, the defaults.
    ///
    /// Everything that matches is laid over the defaults, prefixes from the shortest on and the
    /// exact id last.
    pub fn of(&self, model: &str) -> ModelFacts {
        let mut entry = self.default.clone();
        let mut matching: Vec<_> = self
            .models
            .iter()
            .filter(|(key, _)| matches(key, model))
            .collect();
        matching.sort_by_key(|(key, _)| (!key.ends_with('*'), key.len()));
        for (_, more) in matching {
            entry.take_over(more);
        }
        entry.resolve()
    }

    /// Tells whether the table has an entry that `model` matches.
    pub fn knows(&self, model: &str) -> bool {
        self.models.keys().any(|key| matches(key, model))
    }

    /// Iterates over the exact ids of the table, in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.models
            .keys()
            .map(String::as_str)
            .filter(|key| !key.ends_with('*'))
    }
}

fn matches(key: &str, model: &str) -> bool {
    match key.strip_suffix('*') {
        Some(prefix) => model.strip_prefix(prefix).is_some_and(|rest| {
            // `x-4-5*` means `x-4-5` and `x-4-5-20251101`, not `x-4-50`.
            rest.is_empty() || rest.starts_with(|c: char| !c.is_ascii_alphanumeric())
        }),
        None => key == model,
    }
}

fn parse(text: &str) -> Result<File, BadFacts> {
    toml::from_str(text).map_err(|error| BadFacts::Unreadable {
        reason: error.to_string().trim_end().to_owned(),
    })
}

fn check(model: &str, facts: &ModelFacts) -> Result<(), BadFacts> {
    let default_is_allowed = match facts.default_effort {
        Some(effort) => facts.efforts.contains(&effort),
        None => facts.efforts.is_empty(),
    };
    let reason = if facts.window == 0 || facts.max_output == 0 {
        "`window` and `max_output` must be positive"
    } else if facts.max_output > facts.window {
        "`max_output` is larger than `window`"
    } else if !default_is_allowed {
        "`default_effort` must be one of `efforts`"
    } else {
        return Ok(());
    };
    Err(BadFacts::Impossible {
        model: model.to_owned(),
        reason,
    })
}

#[cfg(test)]
mod tests;
