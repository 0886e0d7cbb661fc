//! What sessions run with, and what their hands answer.

use std::time::Duration;

use outlast_hands::{
    conformance::Deed,
    fake::{Asked, Reply},
};
use outlast_kernel::{Options, Schedule};
use outlast_protocol::{
    CallResult, Metadata, Micros,
    agent::Effort,
    deadlines::Deadlines,
    facts::{ModelFacts, Models},
    id::{AgentId, EnvironmentId},
    seam::Entropy,
};
use outlast_session::body::Config;
use outlast_store::{Resource, ResourceKind, Resources as _};
use outlast_testkit::memory::Memory;
use serde_json::{Value, json};

/// When a world begins.
pub(crate) const BEGIN: Micros = Micros(1_800_000_000_000_000);

/// The tools of an agent: all run but `write`, which asks, and one that the client answers.
pub(crate) fn tools() -> Value {
    let ask = json!({"type": "always_ask"});
    let write =
        json!({"type": "write", "name": "write", "enabled": true, "permission_policy": ask});
    let policy = json!({"enabled": true, "permission_policy": {"type": "always_allow"}});
    json!([
        {"type": "agent_toolset_20260401", "default_config": policy, "configs": [write]},
        {"type": "custom", "name": "ask_client", "description": "asks",
            "input_schema": {"type": "object"}},
    ])
}

/// Puts agent and environment into the store and returns what sessions run with.
pub(crate) async fn config(memory: &Memory, entropy: &dyn Entropy) -> Config {
    let agent = AgentId::mint(BEGIN, entropy);
    let environment_id = EnvironmentId::mint(BEGIN, entropy);
    for (kind, id) in [
        (ResourceKind::Agent, agent.to_string()),
        (ResourceKind::Environment, environment_id.to_string()),
    ] {
        let body = outlast_session::json(&json!({ "id": id }));
        let (revision, created_at, archived_at) = (1, BEGIN, None);
        let object = Resource {
            kind,
            id,
            revision,
            created_at,
            archived_at,
            body,
            parent: None,
            unique_key: None,
        };
        memory.insert(object, None).await.unwrap();
    }
    let agent = json!({
        "type": "agent", "id": agent, "version": 1, "name": "agent", "description": null,
        "execution_identity": { "type": "service_account" }, "mcp_servers": [],
        "model": { "id": "scripted", "effort": { "type": "high" }, "speed": "standard" },
        "multiagent": null, "skills": [], "system": "You are a test.", "tools": tools(),
    });
    let agent = serde_json::from_value(agent).unwrap();
    Config {
        agent,
        environment_id,
        title: None,
        metadata: Metadata::new(),
        resources: Vec::new(),
        vault_ids: Vec::new(),
        repositories: Vec::new(),
    }
}

/// The choices of an operator that a world does not make itself.
pub(crate) fn options(limits: outlast_hands::Limits, checkpoints: Schedule) -> Options {
    Options {
        brains: 8,
        limits,
        require: Vec::new(),
        images: outlast_hands::images::Images::new("/nowhere"),
        mirrors: outlast_hands::packages::Mirrors::default(),
        install: Duration::from_secs(600),
        hand_idle: Duration::from_secs(86_400),
        checkpoints,
        hands: 512,
        hand_age: None,
        hand_life: outlast_kernel::HandLife::WithServer,
        deadlines: Deadlines::default(),
        hour_price: 0,
        file_bytes: 1 << 20,
        output_bytes: 1 << 30,
        beats: None,
    }
}

/// What the command says that clones a repository, and what it is known by.
const CLONED: &str = "outlast-clone:";

/// What the hands answer: always the same to the same call, and that a repository was cloned. An input can ask for a [`Deed`], for a
/// wait, for none at all, or for the death of the hand.
pub(super) fn answer(asked: &Asked) -> Reply {
    if serde_json::from_str::<Deed>(&asked.input).is_ok() {
        return Reply::Deed;
    }
    if asked.input.contains(CLONED) {
        return Reply::Now(CallResult::text(format!("\n{CLONED}there\n")));
    }
    let input: Value = serde_json::from_str(&asked.input).unwrap();
    if input["die"] == true {
        return Reply::Die;
    }
    if input["hang"] == true {
        return Reply::Never;
    }
    let result = CallResult::text(format!("{} {input}", asked.name));
    match input["wait_ms"].as_u64() {
        Some(ms) => Reply::After(Duration::from_millis(ms), result),
        None => Reply::Now(result),
    }
}

/// The scripted model, which is all there is.
#[derive(Debug)]
pub(super) struct OneModel;

impl Models for OneModel {
    fn facts(&self, model: &str) -> Option<ModelFacts> {
        (model == "scripted").then(|| ModelFacts {
            default_effort: Effort::High,
            efforts: Vec::new(),
            supports_speed: false,
            supports_inference_geo: false,
            mid_conversation_system: true,
        })
    }
}
