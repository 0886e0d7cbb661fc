use serde_json::json;

use super::*;

fn checked(body: &Value, dialect: Dialect) -> Result<Request, Rejection> {
    check(body.to_string().as_bytes(), dialect, Purpose::Answer)
}

fn refusal(body: &Value) -> String {
    match checked(body, Dialect::V2023) {
        Err(rejection) => {
            assert_eq!(
                (rejection.status, rejection.kind.as_str()),
                (400, "invalid_request_error")
            );
            rejection.message
        }
        Ok(_) => panic!("{body} was taken"),
    }
}

fn with(field: &str, value: Value) -> Value {
    let mut body = json!({"model": "m", "max_tokens": 5_000,
        "messages": [{"role": "user", "content": "x"}]});
    body[field] = value;
    body
}

fn messages(messages: Value) -> Value {
    with("messages", messages)
}

/// A conversation in which `results` follows calls of `a` and `b`.
fn after_calls(results: Value) -> Value {
    messages(json!([
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "bash", "input": {}},
            {"type": "tool_use", "id": "b", "name": "bash", "input": {}},
        ]},
        results,
    ]))
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "y"})
}

fn text() -> Value {
    json!({"type": "text", "text": "z"})
}

fn user(blocks: Value) -> Value {
    json!({"role": "user", "content": blocks})
}

fn each(cases: Vec<(Value, &str)>) {
    for (body, expected) in cases {
        let message = refusal(&body);
        assert!(
            message.contains(expected),
            "{message}\nwas expected to contain\n{expected}"
        );
    }
}

#[test]
fn good_requests_are_taken() {
    let conversation = json!([
        {"role": "user", "content": "x"},
        {"role": "user", "content": [text(), {"type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]},
        {"role": "system", "content": "be brief"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "undeclared", "input": {}},
            {"type": "tool_use", "id": "b", "name": "bash", "input": {}},
            {"type": "brand_new"}]},
        user(json!([result("b"), {"type": "tool_result", "tool_use_id": "a", "content": [text()]},
            text()])),
        {"role": "system", "content": [{"type": "text", "text": "be brief",
            "cache_control": {"type": "ephemeral"}}]},
    ]);
    let mut body = messages(conversation);
    body["system"] =
        json!([{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]);
    body["tools"] = json!([
        {"name": "bash", "input_schema": {"type": "object", "properties": {}}},
        {"type": "web_search_20250305", "name": "web_search"}]);
    body["cache_control"] = json!({"type": "ephemeral"});
    body["metadata"] = json!({"user_id": "u"});
    body["temperature"] = json!(0.5);
    let request = checked(&body, Dialect::V2023).unwrap();
    assert_eq!(request.tools, ["bash", "web_search"]);
    assert_eq!(request.system, "s");
    assert!(request.input_tokens > 20);
    let newer = checked(&body, Dialect::V2026).unwrap_err();
    assert_eq!(
        newer.message,
        "temperature: not supported with this anthropic-version"
    );
}

#[test]
fn settings_are_checked() {
    each(vec![
        (
            json!({"max_tokens": 1, "messages": []}),
            "model: Field required",
        ),
        (
            with("model", json!("")),
            "model: String should have at least 1 character",
        ),
        (
            with("model", json!(1)),
            "model: Input should be a valid string",
        ),
        (
            json!({"model": "m", "messages": []}),
            "max_tokens: Field required",
        ),
        (
            with("max_tokens", json!(0)),
            "max_tokens: Input should be greater",
        ),
        (
            with("max_tokens", json!(-1)),
            "max_tokens: Input should be a valid integer",
        ),
        (
            with("stream", json!("yes")),
            "stream: Input should be a valid boolean",
        ),
        (
            with("speed", json!("warp")),
            "speed: Input should be one of",
        ),
        (
            with("inference_geo", json!("moon")),
            "inference_geo: Input should be one of",
        ),
        (
            with("output_config", json!({"effort": "huge"})),
            "output_config.effort: ",
        ),
        (with("temperature", json!("hot")), "temperature: "),
        (
            with("system", json!(1)),
            "system: Input should be a valid string or list",
        ),
        (
            with("system", json!([{"type": "image"}])),
            "system.0: Input tag 'image'",
        ),
        (with("thinking", json!({"type": "deep"})), "thinking.type: "),
        (
            with("thinking", json!({"type": "adaptive", "display": "loud"})),
            "thinking.display: ",
        ),
        (
            with(
                "thinking",
                json!({"type": "enabled", "budget_tokens": 1_023}),
            ),
            "greater than or equal to 1024",
        ),
        (
            with(
                "thinking",
                json!({"type": "enabled", "budget_tokens": 5_000}),
            ),
            "`max_tokens` must be greater than `thinking.budget_tokens`",
        ),
    ]);
}

#[test]
fn bodies_that_are_no_request_are_refused() {
    let rubbish = check(b"{", Dialect::V2023, Purpose::Answer).unwrap_err();
    assert!(
        rubbish
            .message
            .starts_with("The request body is not valid JSON")
    );
    let deep = "[".repeat(100_000);
    assert!(check(deep.as_bytes(), Dialect::V2023, Purpose::Answer).is_err());
    let huge = vec![b' '; BODY + 1];
    assert_eq!(
        check(&huge, Dialect::V2023, Purpose::Answer)
            .unwrap_err()
            .status,
        413
    );
}

#[test]
fn tools_are_checked() {
    let tool = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    let long = "x".repeat(129);
    each(vec![
        (
            with("tools", json!({})),
            "tools: Input should be a valid list",
        ),
        (
            with("tools", json!([tool("a b")])),
            "tools.0.custom.name: String should match pattern",
        ),
        (
            with("tools", json!([tool(&long)])),
            "tools.0.custom.name: String should match pattern",
        ),
        (
            with("tools", json!([tool("a"), tool("a")])),
            "Tool names must be unique",
        ),
        (
            with("tools", json!([{"name": "a"}])),
            "tools.0.custom.input_schema: Field required",
        ),
        (
            with("tools", json!([{"name": "a", "input_schema": {}}])),
            "tools.0.custom.input_schema.type: Field required",
        ),
        (
            with("tools", json!([{"type": "web_search_20250305"}])),
            "tools.0.name: Field required",
        ),
        (
            with("tool_choice", json!({"type": "auto"})),
            "while providing tools",
        ),
    ]);
    let mut body = with("tools", json!([tool("a")]));
    body["tool_choice"] = json!({"type": "tool", "name": "b"});
    assert_eq!(refusal(&body), "Tool 'b' not found in provided tools");
    body["tool_choice"] = json!({"type": "none"});
    assert!(checked(&body, Dialect::V2023).unwrap().tools.is_empty());
}

#[test]
fn roles_and_content_are_checked() {
    let one = |message: Value| messages(json!([message]));
    each(vec![
        (
            messages(json!([])),
            "messages: at least one message is required",
        ),
        (
            messages(json!("x")),
            "messages: Input should be a valid list",
        ),
        (
            one(json!("x")),
            "messages.0: Input should be a valid dictionary",
        ),
        (
            one(json!({"content": "x"})),
            "messages.0.role: Field required",
        ),
        (
            one(json!({"role": "tool", "content": "x"})),
            "messages.0.role: Input should be",
        ),
        (
            one(json!({"role": "user"})),
            "messages.0.content: Field required",
        ),
        (
            one(json!({"role": "user", "content": []})),
            "messages.0: all messages must have non-empty",
        ),
        (
            one(json!({"role": "user", "content": "x", "name": "y"})),
            "messages.0.name: Extra inputs",
        ),
        (
            one(json!({"role": "assistant", "content": "x"})),
            "first message must use the \"user\" role",
        ),
        (
            one(json!({"role": "system", "content": "x"})),
            "first message must use the \"user\" role",
        ),
    ]);
}

#[test]
fn blocks_are_checked() {
    let one = |message: Value| messages(json!([message]));
    let assistant = |block: Value| {
        messages(
            json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": [block]}]),
        )
    };
    each(vec![
        (
            one(user(json!([{"type": "text", "text": ""}]))),
            "text content blocks must be non-empty",
        ),
        (
            one(user(json!([{"type": "text", "text": " \n"}]))),
            "must contain non-whitespace text",
        ),
        (
            one(user(json!([{"type": "text"}]))),
            "messages.0.content.0.text.text: Field required",
        ),
        (
            one(user(json!([{"text": "x"}]))),
            "messages.0.content.0.type: Field required",
        ),
        (
            one(user(json!(["x"]))),
            "messages.0.content.0: Input should be a valid dictionary",
        ),
        (
            one(user(json!([{"type": "thinking"}]))),
            "Input tag 'thinking'",
        ),
        (
            one(user(json!([{"type": "image"}]))),
            "messages.0.content.0.image.source: Field required",
        ),
        (assistant(result("a")), "Input tag 'tool_result'"),
        (
            assistant(json!({"type": "tool_use", "id": "a b", "name": "c", "input": {}})),
            "messages.1.content.0.tool_use.id: ",
        ),
        (
            assistant(json!({"type": "tool_use", "id": "a", "name": "c", "input": "{}"})),
            "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
        ),
        (
            assistant(json!({"type": "thinking", "thinking": "x", "signature": "forged"})),
            "messages.1.content.0.thinking: Invalid `signature` in `thinking` block",
        ),
    ]);
}

#[test]
fn every_call_has_one_result_directly_after_it() {
    let twice = messages(json!([
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": {}}]},
        user(json!([result("a")])),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": {}}]},
        user(json!([result("a")])),
    ]));
    each(vec![
        (
            after_calls(user(json!([result("a")]))),
            "immediately after: b.",
        ),
        (
            after_calls(user(json!([text(), result("a"), result("b")]))),
            "immediately after: a, b.",
        ),
        (
            after_calls(user(json!([result("a"), text(), result("b")]))),
            "immediately after: b.",
        ),
        (
            after_calls(user(json!("later"))),
            "immediately after: a, b.",
        ),
        (
            after_calls(json!({"role": "assistant", "content": "x"})),
            "immediately after: a, b.",
        ),
        (
            after_calls(user(json!([result("a"), result("b"), result("a")]))),
            "each tool_use must have a single result",
        ),
        (
            after_calls(user(json!([result("a"), result("b"), result("c")]))),
            "messages.2.content.2: unexpected `tool_use_id` found in `tool_result` blocks: c.",
        ),
        (
            messages(json!([user(json!([result("a")]))])),
            "unexpected `tool_use_id`",
        ),
        (twice, "`tool_use` ids must be unique"),
        (
            after_calls(user(json!([result("a"),
                {"type": "tool_result", "tool_use_id": "b", "is_error": true}]))),
            "content cannot be empty if `is_error` is true",
        ),
        (
            after_calls(user(
                json!([result("a"), {"type": "tool_result", "tool_use_id": "b",
                "is_error": true, "content": [{"type": "image"}]}]),
            )),
            "all content must be type \"text\" if `is_error` is true",
        ),
        (
            after_calls(user(
                json!([result("a"), {"type": "tool_result", "tool_use_id": "b",
                "content": [{"type": "text", "text": ""}]}]),
            )),
            "text content blocks must be non-empty",
        ),
    ]);
}

#[test]
fn system_messages_follow_the_user_and_end_the_turn() {
    let system = json!({"role": "system", "content": "s"});
    let said = json!({"role": "user", "content": "x"});
    let answer = json!({"role": "assistant", "content": "y"});
    each(vec![
        (
            messages(json!([said, answer, system])),
            "must directly follow a 'user' message",
        ),
        (
            messages(json!([said, system, system])),
            "must be last or be followed by",
        ),
        (
            messages(json!([said, system, said])),
            "must be last or be followed by",
        ),
        (
            messages(json!([said, {"role": "system", "content": [{"type": "image"}]}])),
            "Input tag 'image'",
        ),
    ]);
    assert!(
        checked(
            &messages(json!([said, system, answer, said])),
            Dialect::V2023
        )
        .is_ok()
    );
}

#[test]
fn breakpoints_are_counted_and_ordered() {
    let marked = |control: Value| json!({"type": "text", "text": "x", "cache_control": control});
    let five = || marked(json!({"type": "ephemeral"}));
    let hour = || marked(json!({"type": "ephemeral", "ttl": "1h"}));
    let four = user(json!([five(), five(), five(), five()]));
    assert!(checked(&messages(json!([&four])), Dialect::V2023).is_ok());
    let mut automatic = messages(json!([four]));
    automatic["cache_control"] = json!({"type": "ephemeral"});
    let mut tools = messages(json!([user(json!([five(), five(), five(), five()]))]));
    tools["tools"] = json!([{"name": "a", "input_schema": {"type": "object"},
        "cache_control": {"type": "ephemeral"}}]);
    let nested = after_calls(user(json!([
        {"type": "tool_result", "tool_use_id": "a", "content": [five(), five()],
            "cache_control": {"type": "ephemeral"}},
        {"type": "tool_result", "tool_use_id": "b", "content": [five(), five()]},
    ])));
    each(vec![
        (
            automatic,
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        ),
        (tools, "Found 5."),
        (nested, "Found 5."),
        (
            messages(json!([user(json!([five(), hour()]))])),
            "must not come after a ttl='5m'",
        ),
        (
            messages(json!([user(json!([marked(json!({"type": "disk"}))]))])),
            "Input should be 'ephemeral'",
        ),
        (
            messages(json!([user(json!([marked(
                json!({"type": "ephemeral", "ttl": "9m"})
            )]))])),
            "Input should be '5m' or '1h'",
        ),
    ]);
    assert!(
        checked(
            &messages(json!([user(json!([hour(), five()]))])),
            Dialect::V2023
        )
        .is_ok()
    );
}
