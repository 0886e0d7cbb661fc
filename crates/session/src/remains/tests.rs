use super::*;

/// Stands wherever somebody's words can stand.
const WORDS: &str = "canary";

fn knows(name: &str) -> bool {
    name == "bash"
}

fn left(kind: Kind, body: Value) -> Option<Value> {
    let left = remains(kind, &body.to_string(), &knows)?;
    Some(serde_json::from_str(left.get()).unwrap())
}

#[test]
fn words_go_and_what_else_counts_stays() {
    let said = json!({"content": [{"type": "text", "text": WORDS}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": WORDS}}]});
    let nothing = json!({"content": [{"type": "text", "text": ERASED}]});
    let id = "sevt_010000000000000000000001";
    let answer =
        |key: &str, content: Value| json!({(key): id, "content": content, "is_error": true});
    let cases = [
        (Kind::UserMessage, said.clone(), nothing.clone()),
        (Kind::ArrivedMessage, said.clone(), nothing.clone()),
        (Kind::SystemMessage, said.clone(), nothing.clone()),
        (Kind::AgentMessage, said, nothing),
        (
            Kind::UserToolConfirmation,
            json!({"tool_use_id": id, "result": "deny", "deny_message": WORDS}),
            json!({"tool_use_id": id, "result": "deny", "deny_message": ERASED}),
        ),
        (
            Kind::UserCustomToolResult,
            answer(
                "custom_tool_use_id",
                json!([{"type": "text", "text": WORDS}]),
            ),
            answer(
                "custom_tool_use_id",
                json!([{"type": "text", "text": ERASED}]),
            ),
        ),
        (
            Kind::ArrivedToolResult,
            answer("tool_use_id", json!([{"type": "text", "text": WORDS}])),
            answer("tool_use_id", json!([{"type": "text", "text": ERASED}])),
        ),
        (
            Kind::AgentToolUse,
            json!({"name": "bash", "input": {"command": WORDS}, "evaluated_permission": "allow", "evaluation": {"type": "always_allow"}}),
            json!({"name": "bash", "input": {}, "evaluated_permission": "allow", "evaluation": {"type": "always_allow"}}),
        ),
        (
            Kind::AgentToolUse,
            json!({"name": WORDS, "input": {}, "evaluated_permission": "deny"}),
            json!({"name": "erased", "input": {}, "evaluated_permission": "deny"}),
        ),
        (
            Kind::SessionError,
            json!({"error": {"type": "unknown_error", "message": WORDS, "retry_status": {"type": "exhausted"}}}),
            json!({"error": {"type": "unknown_error", "message": ERASED, "retry_status": {"type": "exhausted"}}}),
        ),
        (
            Kind::SessionIdle,
            json!({"stop_reason": {"type": "refusal"}, "stop_details": {"type": "refusal", "category": null, "explanation": WORDS}}),
            json!({"stop_reason": {"type": "refusal"}, "stop_details": {"type": "refusal", "category": null, "explanation": ERASED}}),
        ),
    ];
    for (kind, body, expected) in cases {
        let found = left(kind, body).unwrap();
        assert_eq!(found, expected, "{kind}");
        assert!(!found.to_string().contains(WORDS), "{kind}");
    }
}

#[test]
fn a_response_keeps_its_calls_and_no_thought() {
    let id = "sevt_010000000000000000000001";
    let body = |blocks: Value| {
        json!({"request": id, "blocks": blocks, "stop": "tool_use", "after": "calls",
            "calls": [{"call": id, "tool_use": "toolu_1", "cut": false}]})
    };
    let said = json!([
        {"type": "thinking", "thinking": WORDS, "signature": WORDS},
        {"type": "text", "text": WORDS},
        {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": WORDS}},
        {"type": "tool_use", "id": "toolu_2", "name": WORDS, "input": {}},
        {"type": "of_the_future", "data": WORDS},
    ]);
    let mut before = body(said);
    before["details"] = json!({"explanation": WORDS});
    let expected = json!([
        {"type": "text", "text": ERASED},
        {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}},
        {"type": "tool_use", "id": "toolu_2", "name": "erased", "input": {}},
        {"type": "text", "text": ERASED},
    ]);
    assert_eq!(left(Kind::Response, before), Some(body(expected)));
    // A message must not be empty.
    let thought = json!([{"type": "thinking", "thinking": WORDS, "signature": WORDS}]);
    let found = left(Kind::Response, body(thought)).unwrap();
    assert_eq!(found["blocks"], json!([{"type": "text", "text": ERASED}]));
}

#[test]
fn what_has_no_words_or_is_the_servers_own_stays_as_it_is() {
    let id = "sevt_010000000000000000000001";
    for (kind, body) in [
        (Kind::AgentThinking, json!({})),
        (Kind::UserInterrupt, json!({})),
        (Kind::SessionRunning, json!({})),
        (
            Kind::SessionIdle,
            json!({"stop_reason": {"type": "end_turn"}, "stop_details": null}),
        ),
        (
            Kind::UserToolConfirmation,
            json!({"tool_use_id": id, "result": "allow", "deny_message": null}),
        ),
        (
            Kind::UserCustomToolResult,
            json!({"custom_tool_use_id": id, "content": [], "is_error": null}),
        ),
        (Kind::Created, json!({"config": WORDS})),
        (Kind::SessionUpdated, json!({"title": WORDS})),
        (Kind::Noted, json!({"note": WORDS})),
        (
            Kind::UserMessage,
            json!({"content": [{"type": "text", "text": ERASED}]}),
        ),
    ] {
        assert_eq!(left(kind, body), None, "{kind}");
    }
    assert!(remains(Kind::UserMessage, "no JSON", &knows).is_none());
}
