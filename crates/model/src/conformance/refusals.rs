//! Cases in which a request is refused.

use std::sync::Arc;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::chat::Chat;
use crate::{Error, Model};

async fn refusal(model: &dyn Model, chat: &Chat) -> String {
    match chat.ask(model).await {
        Err(Error::Refused { message }) => message,
        other => panic!("{other:?} is no refusal of {chat:?}"),
    }
}

pub(super) async fn of_broken_requests(model: Arc<dyn Model>) {
    let call = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "t1", "name": "bash", "input": {}}]});
    let text = json!({"role": "user", "content": "x"});
    for (messages, expected) in [
        (json!([]), "at least one message"),
        (json!([call.clone()]), "first message"),
        (
            json!([text.clone(), call.clone(), text]),
            "without `tool_result`",
        ),
        (
            json!([{"role": "robot", "content": "x"}]),
            "messages.0.role",
        ),
        (json!([{"role": "user", "content": ""}]), "non-empty"),
    ] {
        let mut chat = Chat::new("x");
        chat.messages = messages.as_array().expect("a list").clone();
        let message = refusal(&*model, &chat).await;
        assert!(message.contains(expected), "{message}");
    }
    for (field, value, expected) in [
        ("max_tokens", Value::Null, "max_tokens"),
        (
            "tools",
            json!([{"name": "a b", "input_schema": {"type": "object"}}]),
            "tools.0",
        ),
        ("wings", json!(2), "wings: Extra inputs are not permitted"),
    ] {
        let mut chat = Chat::new("x");
        chat.fields.insert(field.to_owned(), value);
        let message = refusal(&*model, &chat).await;
        assert!(message.contains(expected), "{message}");
    }
    let list = Chat::call_with(to_raw_value(&json!([])).expect("JSON"));
    assert!(matches!(
        model.stream(list).await,
        Err(Error::Refused { .. })
    ));
    let typo = Chat::script(&json!([{"text": "a"}, {"txt": "b"}]));
    let message = refusal(&*model, &typo).await;
    assert!(
        message.starts_with("script: step 2: unknown field `txt`"),
        "{message}"
    );
}

pub(super) async fn of_changed_thinking(model: Arc<dyn Model>) {
    for content in [
        json!({"thinking": "deep"}),
        json!({"redacted_thinking": "deep"}),
    ] {
        let mut chat = Chat::script(&json!([{"content": [content]}, {"text": "fine"}]));
        let first = chat.go(&*model).await;
        chat.say("go on");
        assert!(chat.ask(&*model).await.is_ok());
        let changed = first.blocks[0]
            .get()
            .replace("deep", "shallow")
            .replace("64656570", "6465");
        let changed: Value = serde_json::from_str(&changed).expect("JSON");
        chat.messages[1] = json!({"role": "assistant", "content": [changed]});
        let message = refusal(&*model, &chat).await;
        assert!(message.contains("Invalid `"), "{message}");
    }
}

pub(super) async fn of_too_much(model: Arc<dyn Model>) {
    let long = Chat::new(&"word ".repeat(170_000));
    let error = long.ask(&*model).await.expect_err("too long a prompt");
    assert!(matches!(error, Error::Overflow { .. }), "{error:?}");
    let mut greedy = Chat::new("x");
    greedy
        .fields
        .insert("max_tokens".to_owned(), json!(1_000_000));
    let message = refusal(&*model, &greedy).await;
    assert!(
        message.contains("maximum allowed number of output tokens"),
        "{message}"
    );
}
