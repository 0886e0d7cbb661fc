//! Tests of what clients send.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::event::Kind;
use crate::testing::any_json;

const CALL: &str = "sevt_010000000000000000000007";
const THREAD: &str = "sthr_010000000000000000000008";

fn message(text: &str) -> Value {
    json!({"type": "user.message", "content": [{"type": "text", "text": text}]})
}

fn system() -> Value {
    json!({"type": "system.message", "content": [{"type": "text", "text": "s"}]})
}

fn result() -> Value {
    json!({"type": "user.custom_tool_result", "custom_tool_use_id": CALL})
}

fn send(events: Vec<Value>) -> Result<Vec<ClientEvent>, Problem> {
    parse_send(&json!({"events": events}))
}

#[track_caller]
fn refused(events: Vec<Value>, message: &str) {
    assert_eq!(send(events).unwrap_err(), Problem::invalid(message));
}

#[test]
fn every_type_yields_its_body() {
    let sent = vec![
        json!({"type": "user.interrupt"}),
        json!({"type": "user.interrupt", "session_thread_id": THREAD}),
        json!({"type": "user.tool_confirmation", "tool_use_id": CALL, "result": "allow"}),
        json!({"type": "user.tool_confirmation", "tool_use_id": CALL, "result": "deny", "deny_message": "no"}),
        result(),
        json!({"type": "user.custom_tool_result", "custom_tool_use_id": CALL, "content": [], "is_error": true}),
        message("hi"),
        system(),
    ];
    let events = send(sent).unwrap();
    let bodies: Vec<(Kind, String)> = events
        .iter()
        .map(|event| (event.kind(), event.to_raw().get().to_owned()))
        .collect();
    let text = |text: &str| format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
    assert_eq!(
        bodies,
        [
            (Kind::UserInterrupt, "{}".to_owned()),
            (
                Kind::UserInterrupt,
                format!(r#"{{"session_thread_id":"{THREAD}"}}"#)
            ),
            (
                Kind::UserToolConfirmation,
                format!(r#"{{"tool_use_id":"{CALL}","result":"allow","deny_message":null}}"#)
            ),
            (
                Kind::UserToolConfirmation,
                format!(r#"{{"tool_use_id":"{CALL}","result":"deny","deny_message":"no"}}"#)
            ),
            (
                Kind::UserCustomToolResult,
                format!(r#"{{"custom_tool_use_id":"{CALL}","is_error":null}}"#)
            ),
            (
                Kind::UserCustomToolResult,
                format!(r#"{{"custom_tool_use_id":"{CALL}","content":[],"is_error":true}}"#)
            ),
            (Kind::UserMessage, text("hi")),
            (Kind::SystemMessage, text("s")),
        ]
    );
}

#[test]
fn the_envelope_is_checked() {
    let refusal = |body: Value| parse_send(&body).unwrap_err().message;
    assert_eq!(refusal(json!({})), "events: is required");
    assert_eq!(
        refusal(json!([])),
        "the body: must be an object, not an array"
    );
    assert_eq!(
        refusal(json!({"events": []})),
        "events: must have 1 to 1000 entries, not 0"
    );
    assert_eq!(
        refusal(json!({"events": vec![message("a"); 1_001]})),
        "events: must have 1 to 1000 entries, not 1001"
    );
    assert_eq!(
        refusal(json!({"events": [message("a")], "event": 1})),
        "event: unknown field; allowed: `events`"
    );
}

#[test]
fn bad_events_are_refused_by_name() {
    for (event, text) in [
        (json!({"content": []}), "events.1.type: is required"),
        (
            json!({"type": "agent.message"}),
            "events.1.type: must be `user.message`, `user.interrupt`, `user.tool_confirmation`, \
             `user.custom_tool_result`, `user.tool_result`, `user.define_outcome` or \
             `system.message`, not `agent.message`",
        ),
        (
            json!({"type": "user.message"}),
            "events.1.content: is required",
        ),
        (
            json!({"type": "user.message", "content": "hi"}),
            "events.1.content: must be an array, not a string",
        ),
        (
            json!({"type": "user.message", "content": [{"type": "text", "text": ""}]}),
            "events.1.content.0.text: text content blocks must be non-empty",
        ),
        (
            json!({"type": "user.message", "content": [{"type": "text", "text": "a"}], "id": "x"}),
            "events.1.id: unknown field; allowed: `type` or `content`",
        ),
        (
            json!({"type": "user.interrupt", "session_thread_id": "sthr_x"}),
            "events.1.session_thread_id: no thread of this id in the session",
        ),
        (
            json!({"type": "user.tool_confirmation", "tool_use_id": "toolu_1", "result": "allow"}),
            "events.1.tool_use_id: no call of this id waits for an answer",
        ),
        (
            json!({"type": "user.tool_confirmation", "tool_use_id": CALL, "result": "maybe"}),
            "events.1.result: must be `allow` or `deny`, not `maybe`",
        ),
        (
            json!({"type": "user.tool_confirmation", "tool_use_id": CALL, "result": "allow", "deny_message": "x"}),
            "events.1.deny_message: is only allowed when `result` is `deny`",
        ),
        (
            json!({"type": "user.custom_tool_result", "custom_tool_use_id": CALL, "is_error": "no"}),
            "events.1.is_error: must be true or false, not a string",
        ),
        (
            json!({"type": "user.custom_tool_result"}),
            "events.1.custom_tool_use_id: is required",
        ),
    ] {
        refused(vec![message("a"), event], text);
    }
}

#[test]
fn later_types_are_not_supported() {
    for kind in ["user.tool_result", "user.define_outcome"] {
        let problem = send(vec![json!({"type": kind})]).unwrap_err();
        assert_eq!(problem.code, ErrorCode::NotSupported);
        assert_eq!(
            problem.message,
            "events.0.type: not_supported: this server does not take this type of event yet"
        );
    }
}

#[test]
fn a_null_deny_message_is_none() {
    let event = json!({"type": "user.tool_confirmation", "tool_use_id": CALL, "result": "allow", "deny_message": null});
    assert!(send(vec![event]).is_ok());
}

#[test]
fn a_system_message_is_last_and_follows_its_companion() {
    assert!(send(vec![message("a"), system()]).is_ok());
    assert!(send(vec![message("a"), result(), system()]).is_ok());
    let alone = "events.0: a `system.message` must directly follow the `user.message`, \
        `user.tool_result` or `user.custom_tool_result` it goes with";
    refused(vec![system()], alone);
    refused(
        vec![json!({"type": "user.interrupt"}), system()],
        &alone.replace("events.0", "events.1"),
    );
    refused(
        vec![message("a"), system(), message("b")],
        "events.1: a `system.message` must be the last event of the request",
    );
    refused(
        vec![message("a"), system(), message("b"), system()],
        "events.1: at most one `system.message` per request",
    );
}

#[test]
fn initial_events_are_messages_alone() {
    let parse = |value: Value| {
        let mut object = At::root(&value).object().unwrap();
        parse_initial(object.field("initial_events"))
    };
    for none in [
        json!({}),
        json!({"initial_events": null}),
        json!({"initial_events": []}),
    ] {
        assert_eq!(parse(none), Ok(Vec::new()));
    }
    let events = parse(json!({"initial_events": [message("a"), message("b")]})).unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!(
        parse(json!({"initial_events": vec![message("a"); 51]})),
        Err(Problem::invalid(
            "initial_events: must have 0 to 50 entries, not 51"
        ))
    );
    assert_eq!(
        parse(json!({"initial_events": [{"type": "user.interrupt"}]})),
        Err(Problem::invalid(
            "initial_events.0.type: must be `user.message` or `user.define_outcome`, not `user.interrupt`"
        ))
    );
    let outcome = parse(json!({"initial_events": [{"type": "user.define_outcome"}]})).unwrap_err();
    assert_eq!(outcome.code, ErrorCode::NotSupported);
}

proptest! {
    #[test]
    fn no_json_makes_a_send_panic(body in any_json(), events in prop::collection::vec(any_json(), 0..4)) {
        drop(parse_send(&body));
        drop(send(events));
    }

    #[test]
    fn what_passes_has_a_body_on_one_line(texts in prop::collection::vec(".*\n?.*x", 1..4)) {
        let events = send(texts.iter().map(|text| message(&text.replace('\0', ""))).collect()).unwrap();
        for event in events {
            let body = event.to_raw();
            prop_assert!(!body.get().contains('\n'));
            prop_assert!(serde_json::from_str::<Value>(body.get()).unwrap().is_object());
        }
    }
}
