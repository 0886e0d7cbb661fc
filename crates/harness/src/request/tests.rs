//! Requests: valid JSON, few breakpoints, a beginning that never changes a byte.

use outlast_model::Facts;
use serde_json::{Value, json};

use super::*;

fn model() -> Model {
    serde_json::from_value(
        json!({"id": "scripted", "effort": {"type": "high"}, "speed": "standard"}),
    )
    .unwrap()
}

fn prefix() -> Prefix {
    serde_json::from_value(json!({
        "agent": "x",
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "bash", "description": "d", "input_schema": {"type": "object"}}],
    }))
    .unwrap()
}

fn message(role: &str, texts: &[&str]) -> Message {
    let content: Vec<_> = texts
        .iter()
        .map(|text| json!({"type": "text", "text": text}))
        .collect();
    serde_json::from_value(json!({"role": role, "content": content})).unwrap()
}

fn written(messages: &[Message]) -> String {
    let facts = Facts::load(None).unwrap().of("scripted");
    body(&model(), &facts, &prefix(), messages)
        .unwrap()
        .get()
        .to_owned()
}

/// Counts cache breakpoints anywhere.
fn breakpoints(text: &str) -> usize {
    text.matches("cache_control").count()
}

#[test]
fn a_request_is_whole() {
    let request = written(&[message("user", &["hello"])]);
    let value: Value = serde_json::from_str(&request).unwrap();
    assert_eq!(value["model"], "scripted");
    assert_eq!(value["stream"], true);
    assert_eq!(value["messages"][0]["content"][0]["text"], "hello");
    assert_eq!(value["tools"][0]["name"], "bash");
    assert!(value["max_tokens"].as_u64().unwrap() > 0);
}

#[test]
fn breakpoints_stay_within_four() {
    let mut messages = vec![];
    for turn in 0..12 {
        messages.push(message("user", &[&format!("q{turn}")]));
        let request = written(&messages);
        assert!(breakpoints(&request) <= 4, "{request}");
        messages.push(message("assistant", &[&format!("a{turn}")]));
    }
}

#[test]
fn each_request_begins_with_the_one_before() {
    let strip = |text: String| text.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    let mut messages = vec![message("user", &["q"])];
    let mut before = strip(written(&messages));
    for turn in 0..5 {
        messages.push(message("assistant", &[&format!("a{turn}")]));
        messages.push(message("user", &[&format!("q{turn}")]));
        let now = strip(written(&messages));
        let shared = before.strip_suffix(r#"],"stream":true}"#).unwrap();
        assert!(now.starts_with(shared), "{now}\n{shared}");
        before = now;
    }
}
