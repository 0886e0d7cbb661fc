//! Tests of agents: requests, resolution, versions, the stored form.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::facts::Models as _;
use crate::id::AgentId;
use crate::testing::{TwoModels, any_json};
use crate::{ErrorCode, Micros, Problem};

const ID: &str = "agent_010000000000000000000001";

fn id() -> AgentId {
    ID.parse().unwrap()
}

fn create(body: &Value) -> Result<Agent, Problem> {
    CreateAgent::parse(body)?.resolve(id(), Micros(0), &TwoModels)
}

fn update(current: &Agent, body: &Value) -> Result<Option<Agent>, Problem> {
    UpdateAgent::parse(body)?.apply(current, Micros(1), &TwoModels)
}

fn full() -> Agent {
    create(&json!({
        "name": "n", "model": {"id": "full", "effort": "low", "inference_geo": "us", "speed": "fast"},
        "description": "d", "system": "s", "metadata": {"k": "v"},
        "tools": [{"type": "agent_toolset_20260401"}],
        "execution_identity": {"type": "aws_role", "role_arn": "arn:aws:iam::1:role/r"},
    }))
    .unwrap()
}

#[track_caller]
fn refused(body: Value, message: &str) {
    assert_eq!(create(&body), Err(Problem::invalid(message)));
}

#[test]
fn a_small_agent_has_every_field_of_the_sdk() {
    let agent = create(&json!({"name": "n", "model": "full"})).unwrap();
    let wire = json!({
        "type": "agent", "id": ID, "name": "n", "description": null, "system": null,
        "model": {"id": "full", "effort": {"type": "medium"}, "speed": "standard"},
        "tools": [], "mcp_servers": [], "skills": [], "multiagent": null, "metadata": {},
        "execution_identity": {"type": "service_account"}, "version": 1,
        "created_at": "1970-01-01T00:00:00.000000Z", "updated_at": "1970-01-01T00:00:00.000000Z",
        "archived_at": null,
    });
    assert_eq!(serde_json::to_value(&agent).unwrap(), wire);
    assert_eq!(serde_json::from_value::<Agent>(wire).unwrap(), agent);
}

#[test]
fn a_full_agent_round_trips() {
    let agent = full();
    let wire = serde_json::to_value(&agent).unwrap();
    assert_eq!(
        wire["model"],
        json!({"id": "full", "effort": {"type": "low"}, "inference_geo": "us", "speed": "fast"})
    );
    assert_eq!(
        wire["execution_identity"],
        json!({"type": "aws_role", "role_arn": "arn:aws:iam::1:role/r"})
    );
    let text = wire.to_string();
    assert_eq!(serde_json::from_str::<Agent>(&text).unwrap(), agent);
}

#[test]
fn what_comes_later_passes_only_empty() {
    let body = json!({
        "name": "n", "model": "full", "mcp_servers": [], "skills": null, "multiagent": null,
        "metadata": null, "tools": null, "description": null, "execution_identity": null,
    });
    assert!(create(&body).is_ok());
    for (field, value) in [
        ("mcp_servers", json!([{"type": "url"}])),
        ("skills", json!([{"type": "custom"}])),
        ("multiagent", json!({"type": "coordinator"})),
    ] {
        let problem = create(&json!({"name": "n", "model": "full", field: value})).unwrap_err();
        assert_eq!(problem.code, ErrorCode::NotSupported);
        assert!(
            problem
                .message
                .starts_with(&format!("{field}: not_supported"))
        );
    }
}

#[test]
fn bad_requests_are_refused() {
    let with = |field: &str, value: Value| {
        let mut body = json!({"name": "n", "model": "full"});
        body[field] = value;
        body
    };
    refused(json!({"model": "full"}), "name: is required");
    refused(json!({"name": "n"}), "model: is required");
    refused(
        with("name", json!("")),
        "name: must have 1 to 256 characters, not 0",
    );
    refused(
        with("name", json!("x".repeat(257))),
        "name: must have 1 to 256 characters, not 257",
    );
    refused(
        with("description", json!("x".repeat(2_049))),
        "description: must have 0 to 2048 characters, not 2049",
    );
    refused(
        with("system", json!("x".repeat(100_001))),
        "system: must have 0 to 100000 characters, not 100001",
    );
    assert!(create(&with("system", json!("ü".repeat(100_000)))).is_ok());
    refused(
        with("max_tokens", json!(1)),
        "max_tokens: unknown field; allowed: `name`, `model`, `description`, `system`, `tools`, \
         `execution_identity`, `metadata`, `mcp_servers`, `skills` or `multiagent`",
    );
    refused(
        with("execution_identity", json!({"type": "user"})),
        "execution_identity.type: must be `service_account` or `aws_role`, not `user`",
    );
    refused(
        with(
            "execution_identity",
            json!({"type": "aws_role", "role_arn": "x".repeat(2_049)}),
        ),
        "execution_identity.role_arn: must have 1 to 2048 characters, not 2049",
    );
    refused(json!([]), "the body: must be an object, not an array");
}

#[test]
fn models_are_checked_against_their_facts() {
    let model = |model: Value| json!({"name": "n", "model": model});
    refused(
        model(json!("")),
        "model: must have 1 to 256 characters, not 0",
    );
    refused(
        model(json!("gone")),
        "model: no configured model backend takes `gone`",
    );
    refused(
        model(json!(1)),
        "model: must be a model id or an object with an `id`",
    );
    refused(model(json!({})), "model.id: is required");
    refused(
        model(json!({"id": "full", "effort": "huge"})),
        "model.effort: must be `low`, `medium`, `high`, `xhigh` or `max`, not `huge`",
    );
    refused(
        model(json!({"id": "full", "effort": {"type": "max"}})),
        "model.effort: must be `low`, `medium` or `high` for `full`",
    );
    refused(
        model(json!({"id": "plain", "effort": "low"})),
        "model.effort: must be `high` for `plain`",
    );
    refused(
        model(json!({"id": "full", "inference_geo": "eu"})),
        "model.inference_geo: must be `us` or `global`, not `eu`",
    );
    refused(
        model(json!({"id": "plain", "inference_geo": "us"})),
        "model.inference_geo: `plain` cannot be pinned to a region; leave it out",
    );
    refused(
        model(json!({"id": "plain", "speed": "fast"})),
        "model.speed: `plain` has no fast mode; must be `standard`",
    );
    refused(
        model(json!({"id": "full", "temperature": 1})),
        "model.temperature: unknown field; allowed: `id`, `effort`, `inference_geo` or `speed`",
    );
    // What a response showed may be sent back, also where the model has no such setting.
    let plain = create(&model(json!("plain"))).unwrap();
    let shown = serde_json::to_value(&plain.model).unwrap();
    assert_eq!(create(&model(shown)).unwrap(), plain);
}

#[test]
fn an_update_that_changes_nothing_makes_no_version() {
    let agent = full();
    for same in [
        json!({}),
        json!({"version": 1}),
        json!({"name": "n", "description": "d", "metadata": {"k": "v", "gone": null}}),
        json!({"model": {"id": "full", "inference_geo": "us", "speed": "fast"}}),
        json!({"tools": [{"type": "agent_toolset_20260401", "default_config": null}]}),
        json!({"mcp_servers": [], "skills": null, "multiagent": null}),
    ] {
        assert_eq!(update(&agent, &same), Ok(None), "{same}");
    }
}

#[test]
fn an_update_replaces_merges_and_clears() {
    let agent = full();
    let next = update(
        &agent,
        &json!({
            "version": 1, "name": "m", "description": "", "system": null, "tools": [],
            "metadata": {"k": null, "l": "w"}, "execution_identity": null,
        }),
    )
    .unwrap()
    .unwrap();
    let expected = Agent {
        name: "m".into(),
        description: None,
        system: None,
        tools: Tools::default(),
        metadata: [("l".to_owned(), "w".to_owned())].into(),
        execution_identity: ExecutionIdentity::ServiceAccount,
        version: 2,
        updated_at: Micros(1),
        ..agent
    };
    assert_eq!(next, expected);
}

#[test]
fn effort_is_kept_with_the_model_and_reset_with_another() {
    let agent = full();
    let model = |body: Value| update(&agent, &body).unwrap().unwrap().model;
    let kept = model(json!({"model": "full"}));
    assert_eq!(kept.effort, Effort::Low);
    // The object is replaced: what was left out is cleared, but for the effort.
    assert_eq!((kept.inference_geo, kept.speed), (None, Speed::Standard));
    assert_eq!(model(json!({"model": "plain"})).effort, Effort::High);
    let set = model(json!({"model": {"id": "full", "effort": {"type": "high"}}}));
    assert_eq!(set.effort, Effort::High);
}

#[test]
fn updates_are_refused_by_version_and_state() {
    let agent = full();
    let refusal = |body: Value| update(&agent, &body).unwrap_err();
    let stale = refusal(json!({"version": 2}));
    assert_eq!(
        stale,
        Problem::new(
            ErrorCode::Conflict,
            format!("version: agent `{ID}` is at version 1, not 2")
        )
    );
    assert_eq!(stale.code.is_retryable(), Some(false));
    assert_eq!(
        refusal(json!({"version": 0})).message,
        "version: must be an integer from 1 to 4294967295, not 0"
    );
    for field in ["name", "model"] {
        assert_eq!(
            refusal(json!({field: null})).message,
            format!("{field}: must not be null, it cannot be cleared; leave it out to keep it")
        );
    }
    let archived = Agent {
        archived_at: Some(Micros(5)),
        ..agent
    };
    assert_eq!(
        update(&archived, &json!({})),
        Err(Problem::invalid(format!(
            "agent `{ID}` is archived and cannot be changed"
        )))
    );
}

#[test]
fn the_fixture_knows_two_models() {
    assert!(TwoModels.facts("full").is_some() && TwoModels.facts("other").is_none());
}

proptest! {
    #[test]
    fn no_json_makes_a_request_panic(body in any_json(), tools in any_json()) {
        drop(create(&body));
        drop(create(&json!({"name": "n", "model": "full", "tools": [tools]})));
        drop(update(&full(), &body));
        drop(update(&full(), &json!({"model": body, "tools": tools})));
    }
}
