//! Tests of wire forms: whole bodies, as the SDK's types have them.

use serde_json::{Value, json};

use super::*;
use crate::agent::tools::Policy;
use crate::content::TextBlock;
use crate::id::{EventId, ThreadId};
use crate::session::Usage;
use crate::{CallResult, Metadata, Micros, Outcome};

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

#[test]
fn session_events_have_the_fields_of_the_sdk() {
    expect_wire(&StatusRunning {}, "session.status_running", json!({}));
    expect_wire(
        &StatusRescheduled {},
        "session.status_rescheduled",
        json!({}),
    );
    expect_wire(&StatusTerminated {}, "session.status_terminated", json!({}));
    expect_wire(&SessionDeleted {}, "session.deleted", json!({}));
    expect_wire(
        &StatusIdle {
            stop_reason: StopReason::RequiresAction {
                event_ids: vec![event_id()],
            },
            stop_details: None,
        },
        "session.status_idle",
        json!({"stop_reason": {"type": "requires_action", "event_ids": [EVENT]}, "stop_details": null}),
    );
    expect_wire(
        &SessionUsage::new(Usage::default()),
        "session.usage",
        json!({
            "usage": {
                "input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0,
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
                "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
                "active_seconds": 0.0,
            },
            "budget": null,
        }),
    );
    expect_wire(
        &SessionUpdated {
            agent: None,
            metadata: Metadata::from([("k".into(), "v".into())]),
            title: Some(None),
        },
        "session.updated",
        json!({"metadata": {"k": "v"}, "title": null}),
    );
    expect_wire(&SessionUpdated::default(), "session.updated", json!({}));
}

#[test]
fn thread_events_have_the_fields_of_the_sdk() {
    let named = json!({"session_thread_id": THREAD, "agent_name": "a"});
    expect_wire(
        &ThreadRunning {
            session_thread_id: thread_id(),
            agent_name: "a".into(),
        },
        "session.thread_status_running",
        named.clone(),
    );
    expect_wire(
        &ThreadRescheduled {
            session_thread_id: thread_id(),
            agent_name: "a".into(),
        },
        "session.thread_status_rescheduled",
        named.clone(),
    );
    expect_wire(
        &ThreadTerminated {
            session_thread_id: thread_id(),
            agent_name: "a".into(),
        },
        "session.thread_status_terminated",
        named,
    );
    expect_wire(
        &ThreadIdle {
            session_thread_id: thread_id(),
            agent_name: "a".into(),
            stop_reason: StopReason::Refusal,
            stop_details: Some(StopDetails {
                category: Some("bio".into()),
                explanation: None,
            }),
        },
        "session.thread_status_idle",
        json!({
            "session_thread_id": THREAD, "agent_name": "a", "stop_reason": {"type": "refusal"},
            "stop_details": {"type": "refusal", "category": "bio", "explanation": null},
        }),
    );
}

#[test]
fn spans_have_the_fields_of_the_sdk() {
    expect_wire(&ModelRequestStart {}, "span.model_request_start", json!({}));
    expect_wire(
        &ModelRequestEnd {
            model_request_start_id: event_id(),
            is_error: false,
            model_usage: ModelUsage {
                input_tokens: 1,
                output_tokens: 2,
                cache_creation_input_tokens: 3,
                cache_read_input_tokens: 4,
                speed: None,
            },
        },
        "span.model_request_end",
        json!({
            "model_request_start_id": EVENT, "is_error": false,
            "model_usage": {
                "input_tokens": 1, "output_tokens": 2,
                "cache_creation_input_tokens": 3, "cache_read_input_tokens": 4,
            },
        }),
    );
}

#[test]
fn every_stop_reason_is_an_object() {
    for (reason, word) in [
        (StopReason::EndTurn, "end_turn"),
        (StopReason::RetriesExhausted, "retries_exhausted"),
        (StopReason::BudgetReached, "budget_reached"),
        (StopReason::Refusal, "refusal"),
    ] {
        assert_eq!(serde_json::to_value(reason).unwrap(), json!({"type": word}));
    }
}

#[test]
fn errors_carry_their_kind_message_and_retry_status() {
    let retries = [
        (RetryStatus::Retrying, "retrying"),
        (RetryStatus::Exhausted, "exhausted"),
        (RetryStatus::Terminal, "terminal"),
    ];
    for (status, word) in retries {
        expect_wire(
            &SessionError::new(ErrorKind::ModelOverloaded, "m", status),
            "session.error",
            json!({"error": {
                "type": "model_overloaded_error", "message": "m", "retry_status": {"type": word},
            }}),
        );
    }
}

#[test]
fn every_kind_of_error_reads_back_as_it_was_written() {
    for mut error in [
        json!({"type": "unknown_error"}),
        json!({"type": "model_overloaded_error"}),
        json!({"type": "model_rate_limited_error"}),
        json!({"type": "model_request_failed_error"}),
        json!({"type": "mcp_connection_failed_error", "mcp_server_name": "docs"}),
        json!({"type": "mcp_authentication_failed_error", "mcp_server_name": "docs"}),
        json!({"type": "billing_error"}),
        json!({"type": "credential_host_unreachable_error", "credential_id": "c", "vault_id": "v"}),
        json!({"type": "tool_use_limit_reached_error"}),
        json!({"type": "compaction_limit_reached_error"}),
        json!({"type": "repository_authentication_error", "repository_url": "u"}),
        json!({"type": "repository_forbidden_error", "repository_url": null}),
        json!({"type": "repository_not_found_error", "repository_url": null}),
        json!({"type": "repository_checkout_error", "repository_url": null}),
        json!({"type": "repository_clone_error", "repository_url": null}),
    ] {
        error["message"] = json!("m");
        error["retry_status"] = json!({"type": "exhausted"});
        let event: SessionError = serde_json::from_value(json!({"error": error})).unwrap();
        assert_eq!(
            serde_json::to_value(event).unwrap(),
            json!({"error": error})
        );
    }
}

#[test]
fn frames_that_no_log_holds_have_their_own_form() {
    assert_eq!(
        serde_json::to_value(Start {
            event: Previewed::Message { id: event_id() }
        })
        .unwrap(),
        json!({"type": "event_start", "event": {"type": "agent.message", "id": EVENT}})
    );
    assert_eq!(
        serde_json::to_value(Previewed::Thinking { id: event_id() }).unwrap(),
        json!({"type": "agent.thinking", "id": EVENT})
    );
    assert_eq!(
        serde_json::to_value(Delta::new(event_id(), 0, "a")).unwrap(),
        json!({
            "type": "event_delta", "event_id": EVENT,
            "delta": {"type": "content_delta", "index": 0, "content": {"type": "text", "text": "a"}},
        })
    );
    assert_eq!(
        serde_json::to_value(Ping { head: 9 }).unwrap(),
        json!({"type": "ping", "head": 9})
    );
}

#[test]
fn bodies_read_back_as_they_were_written() {
    fn check<T: Body + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(body: &T) {
        let raw = body.to_raw();
        assert_eq!(&serde_json::from_str::<T>(raw.get()).unwrap(), body);
        // One frame is one line: a line feed in a body would cut it.
        assert!(!raw.get().contains('\n'));
    }
    check(&AgentMessage {
        content: vec![TextBlock::new("two\nlines")],
    });
    check(&StatusIdle {
        stop_reason: StopReason::EndTurn,
        stop_details: None,
    });
    for title in [None, Some(None), Some(Some("t".to_owned()))] {
        check(&SessionUpdated {
            title,
            ..SessionUpdated::default()
        });
    }
    let mut input = serde_json::Map::new();
    input.insert("z".into(), json!("\n"));
    input.insert("a".into(), json!(1));
    let call = AgentToolUse {
        name: "bash".into(),
        input,
        evaluated_permission: Permission::Allow,
        evaluation: Some(Evaluation::AlwaysAllow),
        session_thread_id: None,
    };
    check(&call);
    assert!(call.to_raw().get().contains(r#""input":{"z":"\n","a":1}"#));
}

#[test]
fn every_type_reads_back_from_its_word() {
    for (word, kind) in Kind::TABLE {
        assert_eq!((kind.as_str(), Kind::parse(word)), (*word, Some(*kind)));
        assert_eq!(serde_json::to_value(kind).unwrap(), json!(word));
    }
    assert_eq!(Kind::TABLE.len(), 42);
    assert_eq!(Kind::parse("event_start"), None);
}
