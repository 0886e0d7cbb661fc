//! The script language.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Rejection;

mod fault;
mod find;

pub(super) use fault::{Fault, FaultPlace};

/// The longest pause, in milliseconds.
const LONGEST_PAUSE: u64 = 600_000;

/// The most filler of one part, in tokens.
const MOST_FILLER: u64 = 1_000_000;

/// The steps of a script, in order.
#[derive(Clone, Debug)]
pub(super) struct Script {
    steps: Vec<Step>,
}

/// What one response does.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Step {
    pub(super) thinking: Option<String>,
    pub(super) text: Option<String>,
    pub(super) content: Vec<Item>,
    pub(super) calls: Vec<CallSpec>,
    pub(super) pause_ms: u64,
    pub(super) pace: Pace,
    pub(super) error: Option<Fault>,
    pub(super) stop: Option<String>,
    pub(super) stop_sequence: Option<String>,
    pub(super) refusal: Option<RefusalSpec>,
    pub(super) cut: Option<usize>,
    pub(super) usage: Option<UsageSpec>,
    pub(super) repeat: Option<usize>,
}

/// One thing a response consists of.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Item {
    /// A text block.
    Text(String),
    /// A thinking block.
    Thinking(String),
    /// A redacted thinking block.
    RedactedThinking(String),
    /// A tool call.
    Call(CallSpec),
    /// Any block, sent whole.
    Block(Box<RawValue>),
    /// A text block of so many tokens that mean nothing.
    Filler(u64),
    /// Silence, in milliseconds.
    PauseMs(u64),
}

/// A tool call.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CallSpec {
    pub(super) name: String,
    pub(super) input: Option<Box<RawValue>>,
    /// The input as text, which may be broken JSON.
    pub(super) input_json: Option<String>,
    pub(super) id: Option<String>,
}

/// How fast a response comes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Pace {
    /// Tokens in one delta.
    pub(super) tokens: usize,
    /// Milliseconds before each delta.
    pub(super) ms: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { tokens: 8, ms: 0 }
    }
}

/// What a refusal says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RefusalSpec {
    pub(super) category: Option<String>,
    pub(super) explanation: Option<String>,
}

/// Figures that replace the estimated ones.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UsageSpec {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) ephemeral_5m_input_tokens: Option<u64>,
    pub(super) ephemeral_1h_input_tokens: Option<u64>,
    pub(super) web_search_requests: Option<u64>,
}

impl Script {
    /// Finds the script in a user's text.
    ///
    /// # Errors
    /// If there is one and it cannot be read: a typing mistake must not turn into small talk.
    pub(super) fn find(text: &str) -> Result<Option<Self>, Rejection> {
        let Some(json) = find::find(text).map_err(bad)? else {
            return Ok(None);
        };
        let raws: Vec<Box<RawValue>> = serde_json::from_str(json.as_ref())
            .map_err(|error| bad(format!("not a JSON array of steps: {error}")))?;
        let mut steps = Vec::with_capacity(raws.len());
        for (index, raw) in raws.iter().enumerate() {
            let number = index + 1;
            let step: Step = serde_json::from_str(raw.get())
                .map_err(|error| bad(format!("step {number}: {error}")))?;
            step.check()
                .map_err(|error| bad(format!("step {number}: {error}")))?;
            steps.push(step);
        }
        Ok(Some(Self { steps }))
    }

    /// Returns the step of the response number `done`, and how often it was played before it.
    pub(super) fn step(&self, done: usize) -> Option<(&Step, usize)> {
        let mut left = done;
        for step in &self.steps {
            let times = step.repeat.unwrap_or(1);
            if left < times {
                return Some((step, left));
            }
            left -= times;
        }
        None
    }
}

impl Step {
    /// Makes a step that says one thing.
    pub(super) fn say(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// Tells whether the response pauses and wants to be gone on with.
    pub(super) fn pauses(&self) -> bool {
        self.stop.as_deref() == Some("pause_turn")
    }

    /// Returns everything the response consists of, in order.
    pub(super) fn items(&self) -> Vec<Item> {
        let thinking = self.thinking.clone().map(Item::Thinking);
        let text = self.text.clone().map(Item::Text);
        let calls = self.calls.iter().cloned().map(Item::Call);
        let before = thinking.into_iter().chain(text);
        before
            .chain(self.content.iter().cloned())
            .chain(calls)
            .collect()
    }

    fn check(&self) -> Result<(), String> {
        if let Some(fault) = &self.error {
            fault.check()?;
        }
        if self.pace.tokens == 0 || self.pace.ms > LONGEST_PAUSE {
            return Err(format!(
                "`pace` takes `tokens` from 1 and `ms` up to {LONGEST_PAUSE}"
            ));
        }
        if self.repeat == Some(0) {
            return Err("`repeat` must be at least 1".to_owned());
        }
        if self.pause_ms > LONGEST_PAUSE {
            return Err(format!("`pause_ms` is at most {LONGEST_PAUSE}"));
        }
        for item in self.items() {
            item.check()?;
        }
        Ok(())
    }

    /// Returns the pause before the first event.
    pub(super) fn pause(&self) -> Duration {
        Duration::from_millis(self.pause_ms)
    }
}

impl Item {
    fn check(&self) -> Result<(), String> {
        match self {
            Self::Call(call) if call.name.is_empty() => Err("a call needs a `name`".to_owned()),
            Self::Call(call) if call.input.is_some() && call.input_json.is_some() => {
                Err("a call takes `input` or `input_json`, not both".to_owned())
            }
            Self::PauseMs(ms) if *ms > LONGEST_PAUSE => {
                Err(format!("`pause_ms` is at most {LONGEST_PAUSE}"))
            }
            Self::Filler(tokens) if *tokens > MOST_FILLER => {
                Err(format!("`filler` is at most {MOST_FILLER}"))
            }
            Self::Block(block) => match serde_json::from_str::<serde_json::Value>(block.get()) {
                Ok(value) if value.get("type").is_some_and(serde_json::Value::is_string) => Ok(()),
                Ok(_) | Err(_) => Err("a `block` needs a `type`".to_owned()),
            },
            Self::Text(_)
            | Self::Thinking(_)
            | Self::RedactedThinking(_)
            | Self::Call(_)
            | Self::Filler(_)
            | Self::PauseMs(_) => Ok(()),
        }
    }
}

/// Makes the refusal of a script that cannot be read.
fn bad(reason: impl std::fmt::Display) -> Rejection {
    Rejection::invalid(format!("script: {reason}"))
}

#[cfg(test)]
mod tests;
