//! Tests of sessions: requests, overrides, the shown forms.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::agent::{Agent, CreateAgent, Effort};
use crate::read::Patch;
use crate::testing::{TwoModels, any_json, misplaced};
use crate::{ErrorCode, Micros, Problem};

const VAULT: &str = "vlt_010000000000000000000005";
const AGENT: &str = "agent_010000000000000000000001";
const ENVIRONMENT: &str = "env_010000000000000000000002";
const SESSION: &str = "sesn_010000000000000000000003";
const THREAD: &str = "sthr_010000000000000000000004";

fn agent() -> Agent {
    let body = json!({
        "name": "n", "system": "s", "tools": [{"type": "agent_toolset_20260401"}],
        "model": {"id": "full", "effort": "low", "inference_geo": "us"},
    });
    let create = CreateAgent::parse(&body).unwrap();
    create
        .resolve(AGENT.parse().unwrap(), Micros(0), &TwoModels)
        .unwrap()
}

fn create(agent: Value) -> Result<CreateSession, Problem> {
    CreateSession::parse(&json!({"agent": agent, "environment_id": ENVIRONMENT}))
}

fn snapshot(overrides: Value) -> Result<AgentSnapshot, Problem> {
    let mut form = json!({"type": "agent_with_overrides", "id": AGENT});
    let map = form.as_object_mut().unwrap();
    map.extend(overrides.as_object().unwrap().clone());
    AgentSnapshot::from_agent(&agent(), &create(form)?.agent.overrides, &TwoModels)
}

fn agent_wire() -> Value {
    json!({
        "type": "agent", "id": AGENT, "version": 1, "name": "n", "description": null, "system": "s",
        "model": {"id": "full", "effort": {"type": "low"}, "inference_geo": "us", "speed": "standard"},
        "tools": [{
            "type": "agent_toolset_20260401", "configs": [],
            "default_config": {"enabled": true, "permission_policy": {"type": "always_allow"}},
        }],
        "mcp_servers": [], "skills": [], "multiagent": null,
        "execution_identity": {"type": "service_account"},
    })
}

#[test]
fn the_three_forms_of_agent_are_read() {
    for (form, version) in [
        (json!(AGENT), None),
        (json!({"type": "agent", "id": AGENT}), None),
        (json!({"type": "agent", "id": AGENT, "version": 3}), Some(3)),
        (
            json!({"type": "agent_with_overrides", "id": AGENT, "version": 3}),
            Some(3),
        ),
    ] {
        let session = create(form).unwrap();
        assert_eq!(
            session.agent,
            AgentRef {
                id: AGENT.parse().unwrap(),
                version,
                overrides: Overrides::default(),
            }
        );
    }
}

#[test]
fn bad_requests_are_refused() {
    let body = |field: &str, value: Value| {
        let mut body = json!({"agent": AGENT, "environment_id": ENVIRONMENT});
        body[field] = value;
        body
    };
    for (body, code, message) in [
        (
            json!({"environment_id": ENVIRONMENT}),
            ErrorCode::InvalidRequest,
            "agent: is required",
        ),
        (
            json!({"agent": AGENT}),
            ErrorCode::InvalidRequest,
            "environment_id: is required",
        ),
        (
            body("agent", json!("agt_1")),
            ErrorCode::NotFound,
            "agent: agent not found",
        ),
        (
            body("environment_id", json!("e")),
            ErrorCode::EnvironmentNotFound,
            "environment_id: environment not found",
        ),
        (
            body("agent", json!(7)),
            ErrorCode::InvalidRequest,
            "agent: must be an agent id or an object with `type` and `id`",
        ),
        (
            body("agent", json!({"type": "inline", "id": AGENT})),
            ErrorCode::InvalidRequest,
            "agent.type: must be `agent` or `agent_with_overrides`",
        ),
        (
            body("agent", json!({"type": "agent", "id": AGENT, "version": 0})),
            ErrorCode::InvalidRequest,
            "agent.version: must be an integer from 1 to 4294967295",
        ),
        (
            body(
                "agent",
                json!({"type": "agent", "id": AGENT, "system": "x"}),
            ),
            ErrorCode::InvalidRequest,
            "agent.system: unknown field; allowed: `type`, `id` or `version`",
        ),
        (
            body("title", json!("x".repeat(1_025))),
            ErrorCode::InvalidRequest,
            "title: must have 0 to 1024 characters, not 1025",
        ),
        (
            body("metadata", json!({"k": "x".repeat(513)})),
            ErrorCode::InvalidMetadata,
            "metadata: the value of key `k` must have at most 512 characters, not 513",
        ),
        (
            body("initial_events", json!([{"type": "system.message"}])),
            ErrorCode::InvalidRequest,
            "initial_events.0.type: must be `user.message` or `user.define_outcome`",
        ),
    ] {
        assert_eq!(
            CreateSession::parse(&body),
            Err(Problem::new(code, message))
        );
    }
}

#[test]
fn vaults_are_named_in_their_order() {
    let body =
        |value: Value| json!({"agent": AGENT, "environment_id": ENVIRONMENT, "vault_ids": value});
    let named = |value| CreateSession::parse(&body(value)).map(|create| create.vault_ids);
    for none in [json!(null), json!([])] {
        assert_eq!(named(none), Ok(Vec::new()));
    }
    let other = "vlt_010000000000000000000009";
    let ids = named(json!([other, VAULT])).unwrap();
    assert_eq!(json!(ids), json!([other, VAULT]));
    assert_eq!(named(json!(vec![VAULT; 50])).unwrap().len(), 50);
    let many = named(json!(vec![VAULT; 51])).unwrap_err();
    assert_eq!(many.message, "vault_ids: must have 0 to 50 entries, not 51");
    let unknown = named(json!([VAULT, "vault_1"])).unwrap_err();
    assert_eq!(
        unknown,
        Problem::new(ErrorCode::NotFound, "vault_ids.1: vault not found")
    );
}

#[test]
fn what_comes_later_passes_only_empty() {
    let body =
        |value: Value| json!({"agent": AGENT, "environment_id": ENVIRONMENT, "budget": value});
    assert!(CreateSession::parse(&body(json!(null))).is_ok());
    let problem = CreateSession::parse(&body(json!({"type": "limit"}))).unwrap_err();
    assert_eq!(problem.code, ErrorCode::NotSupported);
    assert!(problem.message.starts_with("budget: not_supported"));
    for (field, full) in [
        ("vault_ids", json!([VAULT])),
        ("budget", json!({"type": "limit"})),
    ] {
        assert!(UpdateSession::parse(&json!({field: null})).is_ok());
        assert!(UpdateSession::parse(&json!({field: full})).is_err());
    }
    for field in ["mcp_servers", "skills", "multiagent"] {
        assert!(snapshot(json!({field: []})).is_ok());
        let problem = snapshot(json!({field: [1]})).unwrap_err();
        assert_eq!(problem.code, ErrorCode::NotSupported);
        assert!(
            problem
                .message
                .starts_with(&format!("agent.{field}: not_supported"))
        );
    }
}

#[test]
fn a_snapshot_has_the_fields_of_the_sdk_and_round_trips() {
    let plain = AgentSnapshot::from_agent(&agent(), &Overrides::default(), &TwoModels).unwrap();
    let text = serde_json::to_string(&plain).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), agent_wire());
    assert_eq!(serde_json::from_str::<AgentSnapshot>(&text).unwrap(), plain);
    assert_eq!(snapshot(json!({})).unwrap(), plain);
}

#[test]
fn overrides_replace_and_clear() {
    let cleared = snapshot(json!({"system": null, "tools": []})).unwrap();
    assert_eq!((cleared.system, cleared.tools.entries().len()), (None, 0));
    let null = snapshot(json!({"tools": null})).unwrap();
    assert!(null.tools.offered().is_empty());
    let set = snapshot(json!({"system": "t", "model": {"id": "full", "effort": "high"}})).unwrap();
    assert_eq!(set.system.as_deref(), Some("t"));
    // The effort of an override is not applied, and a pin that is left out is gone.
    assert_eq!(
        (set.model.effort, set.model.inference_geo),
        (Effort::Medium, None)
    );
    assert_eq!(
        snapshot(json!({"model": "plain"})).unwrap().model.id,
        "plain"
    );
    assert_eq!(
        snapshot(json!({"model": "gone"})),
        Err(Problem::invalid(
            "agent.model: no configured model backend takes `gone`"
        ))
    );
    let null_model = snapshot(json!({"model": null})).unwrap_err();
    assert_eq!(null_model.code, ErrorCode::AgentModelRequired);
    assert!(
        null_model
            .message
            .starts_with("agent.model: agent_model_required")
    );
}

#[test]
fn a_session_has_every_field_of_the_sdk() {
    let session = Session {
        id: SESSION.parse().unwrap(),
        agent: snapshot(json!({})).unwrap(),
        archived_at: None,
        budget: None,
        created_at: Micros(0),
        deployment_id: None,
        environment_id: ENVIRONMENT.parse().unwrap(),
        metadata: crate::Metadata::new(),
        outcome_evaluations: Vec::new(),
        resources: Vec::new(),
        stats: SessionStats::default(),
        status: Status::Idle,
        title: None,
        updated_at: Micros(0),
        usage: Usage {
            list_cost: Some(Money::from_nano_dollars(1_234_999_999)),
            ..Usage::default()
        },
        vault_ids: Vec::new(),
    };
    let wire = json!({
        "type": "session", "id": SESSION, "agent": agent_wire(), "archived_at": null, "budget": null,
        "created_at": "1970-01-01T00:00:00.000000Z", "deployment_id": null,
        "environment_id": ENVIRONMENT, "metadata": {}, "outcome_evaluations": [], "resources": [],
        "stats": {"active_seconds": 0.0, "duration_seconds": 0.0}, "status": "idle", "title": null,
        "updated_at": "1970-01-01T00:00:00.000000Z",
        "usage": {
            "input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "active_seconds": 0.0, "list_cost": {"amount": "123", "currency": "USD"},
        },
        "vault_ids": [],
    });
    assert_eq!(serde_json::to_value(&session).unwrap(), wire);
    let text = serde_json::to_string(&session).unwrap();
    assert_eq!(serde_json::from_str::<Session>(&text).unwrap(), session);
}

#[test]
fn a_thread_has_every_field_of_the_sdk() {
    let thread = Thread {
        id: THREAD.parse().unwrap(),
        agent: snapshot(json!({})).unwrap().thread_agent(),
        archived_at: None,
        created_at: Micros(0),
        parent_thread_id: None,
        session_id: SESSION.parse().unwrap(),
        stats: Some(ThreadStats::default()),
        status: Status::Running,
        updated_at: Micros(0),
        usage: None,
        workflow_run_id: None,
    };
    let mut agent = agent_wire();
    agent.as_object_mut().unwrap().remove("multiagent");
    let wire = json!({
        "type": "session_thread", "id": THREAD, "agent": agent, "archived_at": null,
        "created_at": "1970-01-01T00:00:00.000000Z", "parent_thread_id": null,
        "session_id": SESSION,
        "stats": {"active_seconds": 0.0, "duration_seconds": 0.0, "startup_seconds": 0.0},
        "status": "running", "updated_at": "1970-01-01T00:00:00.000000Z", "usage": null,
        "workflow_run_id": null,
    });
    assert_eq!(serde_json::to_value(&thread).unwrap(), wire);
    let text = serde_json::to_string(&thread).unwrap();
    assert_eq!(serde_json::from_str::<Thread>(&text).unwrap(), thread);
}

#[test]
fn updates_tell_keep_clear_and_set_apart() {
    assert_eq!(
        UpdateSession::parse(&json!({})),
        Ok(UpdateSession::default())
    );
    let cleared = json!({"title": null, "agent": {"tools": null}});
    let cleared = UpdateSession::parse(&cleared).unwrap();
    assert_eq!((cleared.title, cleared.tools), (Patch::Clear, Patch::Clear));
    let set = json!({"title": "t", "agent": {"tools": [], "mcp_servers": []}});
    let set = UpdateSession::parse(&set).unwrap();
    assert_eq!(set.title, Patch::Set("t".to_owned()));
    assert!(matches!(set.tools, Patch::Set(tools) if tools.entries().is_empty()));
    for (body, message) in [
        (
            json!({"agent": {"system": "x"}}),
            "agent.system: unknown field; allowed: `tools` or `mcp_servers`",
        ),
        (
            json!({"agent": AGENT}),
            "agent: must be an object, not a string",
        ),
        (
            json!({"environment_id": "x"}),
            "environment_id: unknown field; allowed: `title`, `metadata`, `agent`, `vault_ids` or `budget`",
        ),
    ] {
        assert_eq!(UpdateSession::parse(&body), Err(Problem::invalid(message)));
    }
}

#[test]
fn money_is_rounded_to_the_nearest_cent() {
    for (nano, cents) in [
        (0, "0"),
        (4_999_999, "0"),
        (5_000_000, "1"),
        (25_000_000_000, "2500"),
    ] {
        assert_eq!(Money::from_nano_dollars(nano).amount, cents);
    }
}

#[test]
fn every_status_has_its_word() {
    for (word, status) in Status::TABLE {
        assert_eq!(status.as_str(), *word);
        assert_eq!(serde_json::to_value(status).unwrap(), json!(word));
    }
}

proptest! {
    #[test]
    fn no_json_makes_a_request_panic(body in any_json(), overrides in any_json()) {
        drop(CreateSession::parse(&body));
        drop(UpdateSession::parse(&body));
        drop(create(body));
        if let Value::Object(_) = overrides {
            drop(snapshot(overrides));
        }
    }
}

#[test]
fn a_token_in_the_wrong_place_is_in_no_refusal() {
    const CANARY: &str = "canary-4f1d2b";
    let whole = json!({
        "agent": {"type": "agent", "id": AGENT, "version": 1}, "environment_id": ENVIRONMENT,
        "title": "t", "metadata": {"k": "v"}, "vault_ids": [VAULT], "initial_events": [],
        "resources": [
            {
                "type": "github_repository", "url": "https://h.io/r", "mount_path": "/workspace/r",
                "authorization_token": "t", "checkout": {"type": "branch", "name": "main"},
            },
            {"type": "file", "file_id": "file_010000000000000000000001", "mount_path": "/a"},
        ],
    });
    CreateSession::parse(&whole).unwrap();
    let bodies = misplaced(&whole, CANARY).into_iter();
    let told = bodies.filter_map(|body| CreateSession::parse(&body).err());
    let resources = whole["resources"].as_array().unwrap().iter();
    let bodies = resources.flat_map(|resource| misplaced(resource, CANARY));
    let told = told.chain(bodies.filter_map(|body| AddFile::parse(&body).err()));
    let bodies = misplaced(&json!({"authorization_token": "t"}), CANARY).into_iter();
    let told = told.chain(bodies.filter_map(|body| parse_rotation(&body).err()));
    let told: Vec<Problem> = told.collect();
    assert!(told.len() > 100, "{}", told.len());
    for problem in told {
        assert!(!problem.message.contains(CANARY), "{problem:?}");
    }
}
