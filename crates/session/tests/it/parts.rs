//! Small parts that tests are put together from.

use std::sync::Arc;

use outlast_protocol::{
    Micros,
    id::{ApiKeyId, EnvironmentId, EventId, IncarnationId, ProcessId, SessionId, ThreadId},
};
use outlast_session::{
    Act, Ids, Input, Json,
    body::{Checkpointed, Config, Sum, Tokens},
};
use outlast_testkit::random::Constant;
use serde_json::{json, value::to_raw_value};

/// Draws ids one after another, the same in every run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbered(u64);

pub(crate) fn moment(number: u64) -> Micros {
    Micros(i64::try_from(number).unwrap() * 1_000)
}

impl Ids for Numbered {
    fn event(&mut self) -> EventId {
        self.0 += 1;
        EventId::mint(moment(self.0), &Constant(0))
    }
}

pub(crate) fn process(number: u64) -> ProcessId {
    ProcessId::mint(moment(number), &Constant(0))
}

pub(crate) fn hand(number: u64) -> IncarnationId {
    IncarnationId::mint(moment(number), &Constant(0))
}

/// A checkpoint of a hand, by its moment.
pub(crate) fn checkpoint(number: u64, at: i64) -> Checkpointed {
    Checkpointed {
        incarnation: hand(number),
        blob: format!("sessions/x/checkpoints/{number}-{at}"),
        sum: Sum {
            entries: 1,
            bytes: 2,
            digest: "0".repeat(64),
        },
        at: Micros(at),
    }
}

pub(crate) fn client() -> ApiKeyId {
    ApiKeyId::mint(moment(1), &Constant(0))
}

pub(crate) fn session() -> SessionId {
    SessionId::mint(moment(1), &Constant(0))
}

pub(crate) fn primary() -> ThreadId {
    ThreadId::mint(moment(1), &Constant(0))
}

/// An agent with `bash` and `glob` at once, `write` on request, `edit` by judgement, `read` off,
/// and a custom tool `ask`.
pub(crate) fn config(model: &str) -> Arc<Config> {
    let own = |name: &str, enabled: bool, policy: &str| json!({"type": name, "name": name, "enabled": enabled, "permission_policy": {"type": policy}});
    let agent = json!({
        "type": "agent",
        "id": outlast_protocol::id::AgentId::mint(moment(1), &Constant(0)),
        "description": null,
        "execution_identity": {"type": "service_account"},
        "mcp_servers": [],
        "model": {"id": model, "effort": {"type": "high"}, "speed": "standard"},
        "multiagent": null,
        "name": "worker",
        "skills": [],
        "system": null,
        "tools": [
            {
                "type": "agent_toolset_20260401",
                "configs": [
                    own("write", true, "always_ask"),
                    own("edit", true, "auto"),
                    own("read", false, "always_allow"),
                ],
                "default_config": {"enabled": true, "permission_policy": {"type": "always_allow"}},
            },
            {"type": "custom", "name": "ask", "description": "asks", "input_schema": {"type": "object"}},
        ],
        "version": 1,
    });
    Arc::new(Config {
        agent: serde_json::from_value(agent).unwrap(),
        environment_id: EnvironmentId::mint(moment(1), &Constant(0)),
        title: None,
        metadata: outlast_protocol::Metadata::new(),
        resources: Vec::new(),
        vault_ids: Vec::new(),
        repositories: Vec::new(),
    })
}

pub(crate) fn raw(value: &serde_json::Value) -> Json {
    to_raw_value(value).unwrap().into()
}

fn text(text: &str) -> Json {
    raw(&json!({"content": [{"type": "text", "text": text}]}))
}

pub(crate) fn message(words: &str) -> Input {
    let (act, body) = (Act::Message, text(words));
    Input { act, body }
}

pub(crate) fn system(words: &str) -> Input {
    let (act, body) = (Act::System, text(words));
    Input { act, body }
}

pub(crate) fn interrupt() -> Input {
    let (act, body) = (Act::Interrupt { thread: None }, raw(&json!({})));
    Input { act, body }
}

pub(crate) fn allow(call: EventId) -> Input {
    let act = Act::Confirm { call, deny: None };
    let body = raw(&json!({"tool_use_id": call, "result": "allow"}));
    Input { act, body }
}

pub(crate) fn deny(call: EventId, words: Option<&str>) -> Input {
    let deny = Some(words.map(str::to_owned));
    let act = Act::Confirm { call, deny };
    let body = raw(&json!({"tool_use_id": call, "result": "deny", "deny_message": words}));
    Input { act, body }
}

pub(crate) fn result(call: EventId) -> Input {
    let act = Act::Result { call };
    let body = raw(&json!({"custom_tool_use_id": call, "content": []}));
    Input { act, body }
}

/// Tokens that can be told apart when they are summed.
pub(crate) fn tokens(input: u64) -> Tokens {
    Tokens {
        input,
        output: 1,
        ..Tokens::default()
    }
}
