//! Tests of wire forms: whole bodies, as the SDK's types have them.

use serde_json::{Value, json};

use super::*;
use crate::agent::tools::Policy;
use crate::content::{Block, TextBlock};
use crate::id::{EventId, ThreadId};
use crate::read::{At, body};
use crate::{CallResult, ErrorCode, Micros, Outcome, Problem};

fn event_id() -> EventId {
    "sevt_010000000000000000000007".parse().unwrap()
}

fn thread_id() -> ThreadId {
    "sthr_010000000000000000000008".parse().unwrap()
}

const EVENT: &str = "sevt_010000000000000000000007";
const THREAD: &str = "sthr_010000000000000000000008";

/// Splices a body at the epoch and reads the result back.
fn spliced(body: &impl Body) -> Value {
    let text = wire(
        body.kind().as_str(),
        event_id(),
        Some(Micros(0)),
        &body.to_raw(),
    );
    serde_json::from_str(&text).unwrap()
}

/// Expects the three common fields and these.
#[track_caller]
fn expect_wire(body: &impl Body, kind: &str, fields: Value) {
    let mut expected = json!({
        "id": EVENT, "type": kind, "processed_at": "1970-01-01T00:00:00.000000Z",
    });
    let map = expected.as_object_mut().unwrap();
    map.extend(fields.as_object().unwrap().clone());
    assert_eq!(spliced(body), expected);
}

#[test]
fn wire_copies_the_body_behind_the_common_fields() {
    let message = AgentMessage {
        content: vec![TextBlock::new("hi")],
    };
    assert_eq!(
        wire("agent.message", event_id(), None, &message.to_raw()),
        format!(
            r#"{{"id":"{EVENT}","type":"agent.message","processed_at":null,"content":[{{"type":"text","text":"hi"}}]}}"#
        )
    );
    assert_eq!(
        wire(
            "agent.thinking",
            event_id(),
            Some(Micros(1)),
            &AgentThinking {}.to_raw()
        ),
        format!(
            r#"{{"id":"{EVENT}","type":"agent.thinking","processed_at":"1970-01-01T00:00:00.000001Z"}}"#
        )
    );
}

#[test]
fn agent_events_have_the_fields_of_the_sdk() {
    expect_wire(&AgentThinking {}, "agent.thinking", json!({}));
    let input = json!({"z": 1, "a": {"n": [null]}});
    let Value::Object(input) = input else {
        unreachable!("an object")
    };
    let (evaluated_permission, evaluation) = Evaluation::of(Policy::Auto);
    expect_wire(
        &AgentToolUse {
            name: "bash".into(),
            input: input.clone(),
            evaluated_permission,
            evaluation: Some(evaluation),
            session_thread_id: None,
        },
        "agent.tool_use",
        json!({
            "name": "bash", "input": {"z": 1, "a": {"n": [null]}}, "evaluated_permission": "ask",
            "evaluation": {
                "type": "auto",
                "evaluated_permission": {"type": "ask", "reason_code": "indeterminate"},
            },
        }),
    );
    expect_wire(
        &AgentToolUse {
            name: "nope".into(),
            input: serde_json::Map::new(),
            evaluated_permission: Permission::Deny,
            evaluation: None,
            session_thread_id: None,
        },
        "agent.tool_use",
        json!({"name": "nope", "input": {}, "evaluated_permission": "deny"}),
    );
    expect_wire(
        &AgentCustomToolUse {
            name: "weather".into(),
            input,
            session_thread_id: Some(thread_id()),
        },
        "agent.custom_tool_use",
        json!({"name": "weather", "input": {"z": 1, "a": {"n": [null]}}, "session_thread_id": THREAD}),
    );
    expect_wire(
        &AgentToolResult::new(event_id(), CallResult::error(Outcome::Limit, "too long")),
        "agent.tool_result",
        json!({
            "tool_use_id": EVENT, "is_error": true, "content": [{"type": "text", "text": "too long"}],
        }),
    );
}

#[test]
fn policies_evaluate_to_permissions() {
    assert_eq!(
        Evaluation::of(Policy::AlwaysAllow),
        (Permission::Allow, Evaluation::AlwaysAllow)
    );
    assert_eq!(
        serde_json::to_value(Evaluation::of(Policy::AlwaysAsk).1).unwrap(),
        json!({"type": "always_ask"})
    );
}
