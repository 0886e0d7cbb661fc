//! What every request of a session begins with: system prompt and tools, recorded once.
//!
//! A later version of this program may word its own part otherwise; a session keeps the words it
//! began with until its agent changes, so that the provider's cache holds.

use outlast_kernel::{Lease, LeaseError, Slice, Tool};
use outlast_session::{Json, State, Step, body::Pinned, json};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::context::NAME;

/// What the model is told of its sandbox.
const SANDBOX: &str = "You work in a Linux sandbox of your own. Commands start in /workspace; files \
there last for the whole session, running processes may not. The sandbox has no network. Put files \
that are meant for the user into /mnt/session/outputs.";

/// System prompt and tools as requests have them, byte for byte.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Prefix {
    /// The agent's part that this was made from.
    agent: String,
    /// Text blocks of `system`.
    pub(crate) system: Vec<Box<RawValue>>,
    /// Entries of `tools`.
    pub(crate) tools: Vec<Box<RawValue>>,
}

/// A text block.
#[derive(Serialize)]
struct Text<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

/// An entry of `tools`.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
}

impl Prefix {
    /// Returns the recorded prefix, or records one made for the agent as it is now.
    ///
    /// What is recorded here is submitted, not awaited: it precedes the request in the log.
    pub(crate) async fn load(lease: &Lease, state: &State) -> Result<Self, LeaseError> {
        let thread = lease.held(state);
        if thread.is_some_and(|thread| thread.pinned.is_none()) {
            drop(lease.propose(Step::Pin(pinned())));
        }
        if let Some(prefix) = Self::recorded(lease, state).await? {
            return Ok(prefix);
        }
        let prefix = Self::make(agent(state), state, &lease.tools(state));
        let body: Json = json(&prefix);
        drop(lease.propose(Step::Prefix(body)));
        Ok(prefix)
    }

    /// Returns the recorded prefix, if there is one and it was made for the agent as it is now.
    pub(crate) async fn recorded(lease: &Lease, state: &State) -> Result<Option<Self>, LeaseError> {
        let Some(position) = lease.held(state).and_then(|thread| thread.prefix) else {
            return Ok(None);
        };
        let prefix = Self::read(lease, position).await?;
        Ok(prefix.filter(|prefix| prefix.agent == agent(state)))
    }

    async fn read(lease: &Lease, position: u64) -> Result<Option<Self>, LeaseError> {
        let records = lease
            .read(Slice::after(position.saturating_sub(1), 1))
            .await?;
        let record = records.first();
        Ok(record.and_then(|record| serde_json::from_str(record.body.text()).ok()))
    }

    fn make(agent: String, state: &State, tools: &[Tool]) -> Self {
        let own = state
            .config
            .as_ref()
            .and_then(|config| config.agent.system.as_deref());
        let hand = tools
            .iter()
            .any(|tool| tool.name == "bash")
            .then_some(SANDBOX);
        let texts = own
            .into_iter()
            .chain(hand)
            .filter(|text| !text.trim().is_empty());
        let system = texts.filter_map(|text| to_raw_value(&Text { kind: "text", text }).ok());
        Self {
            agent,
            system: system.collect(),
            tools: tools.iter().filter_map(entry).collect(),
        }
    }
}

/// Returns what the session is to be run with for its whole life.
fn pinned() -> Pinned {
    Pinned {
        harness: "outlast-loop".to_owned(),
        strategy: NAME.to_owned(),
        version: 1,
    }
}

/// Returns the digest of the agent's part of a prefix.
fn agent(state: &State) -> String {
    let config = state.config.as_ref();
    let part = config.map(|config| (&config.agent.system, &config.agent.tools));
    blake3::hash(&serde_json::to_vec(&part).unwrap_or_default())
        .to_hex()
        .to_string()
}

fn entry(tool: &Tool) -> Option<Box<RawValue>> {
    let Tool {
        name,
        description,
        input_schema,
    } = tool;
    to_raw_value(&Entry {
        name,
        description,
        input_schema,
    })
    .ok()
}
