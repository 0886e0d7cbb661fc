//! Cases in which the model answers.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::join_all;
use serde_json::json;

use super::chat::Chat;
use crate::{Model, Response, Speed, StopReason};

fn text(response: &Response) -> String {
    let texts = response.texts.iter().map(|text| text.text.as_str());
    texts.collect::<Vec<_>>().join("|")
}

pub(super) async fn speaks(model: Arc<dyn Model>) {
    let chat = Chat::script(&json!([{"text": "Hello, wörld 😀\n\"quoted\""}]));
    let mut events = model.stream(chat.call()).await.expect("a stream");
    let mut names = Vec::new();
    while let Some(event) = events.next().await {
        names.push(event.expect("an event").name().to_owned());
    }
    names.dedup();
    assert_eq!(
        names,
        [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    assert!(events.next().await.is_none(), "a stream stays at its end");
    let response = chat.ask(&*model).await.expect("an answer");
    assert_eq!(text(&response), "Hello, wörld 😀\n\"quoted\"");
    assert_eq!(response.stop_reason, StopReason::EndTurn);
    assert_eq!(response.model, "scripted");
    assert!(response.id.starts_with("msg_"));
}

pub(super) async fn calls_tools_and_reads_results(model: Arc<dyn Model>) {
    let mut chat = Chat::script(&json!([
        {"thinking": "two at once", "text": "Looking.", "calls": [
            {"name": "bash", "input": {"command": "ls"}},
            {"name": "read", "input": {"file_path": "/a", "view_range": [1, 2]}},
        ]},
        {"text": "I saw {{results.1}} after {{results.0}}."},
    ]));
    let first = chat.go(&*model).await;
    assert_eq!(first.stop_reason, StopReason::ToolUse);
    assert!(first.thinking);
    let calls: Vec<_> = first
        .calls
        .iter()
        .map(|call| (call.index, call.name.as_str()))
        .collect();
    assert_eq!(calls, [(2, "bash"), (3, "read")]);
    assert!(first.calls.iter().all(|call| !call.cut));
    chat.results(&first, "result");
    let second = chat.go(&*model).await;
    assert_eq!(text(&second), "I saw result 3 after result 2.");
    chat.say("Go on.");
    let third = chat.go(&*model).await;
    assert!(text(&third).contains("scripted model"), "{third:?}");
}

pub(super) async fn keeps_blocks_as_they_are(model: Arc<dyn Model>) {
    let block = r#"{"type":"brand_new","n":1.000000000000000000001,"deep":{"b":1,"a":[]}}"#;
    let input = r#"{"n": 1.000000000000000000001, "s":"\u00e9", "b":1, "a":2}"#;
    let script = format!(
        r#"{{"script": [{{"content": [
            {{"redacted_thinking": "secret"}},
            {{"block": {block}}},
            {{"call": {{"name": "bash", "id": "toolu_mine", "input": {input}}}}}
        ]}}, {{"text": "fine"}}]}}"#
    );
    let mut chat = Chat::new(&script);
    let first = chat.ask(&*model).await.expect("an answer");
    assert!(first.thinking);
    assert_eq!(first.blocks.len(), 3);
    assert_eq!(first.blocks[1].get(), block);
    assert_eq!(first.calls[0].input.get(), input);
    assert_eq!(
        first.blocks[2].get(),
        format!(r#"{{"type":"tool_use","id":"toolu_mine","name":"bash","input":{input}}}"#)
    );
    chat.keep(&first);
    chat.results(&first, "ok");
    assert_eq!(text(&chat.go(&*model).await), "fine");
}

pub(super) async fn stops_for_every_reason(model: Arc<dyn Model>) {
    let mut chat = Chat::script(&json!([
        {"refusal": {"category": "cyber", "explanation": "no"}, "text": "I will not"},
        {"text": "a", "stop": "stop_sequence", "stop_sequence": "END"},
        {"text": "b", "stop": "model_context_window_exceeded"},
        {"text": "c", "stop": "brand_new"},
        {},
    ]));
    let refused = chat.go(&*model).await;
    assert_eq!(refused.stop_reason, StopReason::Refusal);
    let details = refused.stop_details.expect("details");
    let details: serde_json::Value = serde_json::from_str(details.get()).expect("JSON");
    assert_eq!(
        details,
        json!({"type": "refusal", "category": "cyber", "explanation": "no"})
    );
    chat.say("go on");
    let stopped = chat.go(&*model).await;
    assert_eq!(stopped.stop_reason, StopReason::StopSequence);
    assert_eq!(stopped.stop_sequence.as_deref(), Some("END"));
    assert!(stopped.stop_details.is_none());
    chat.say("go on");
    assert_eq!(
        chat.go(&*model).await.stop_reason,
        StopReason::ContextWindowExceeded
    );
    chat.say("go on");
    let other = chat.go(&*model).await.stop_reason;
    assert_eq!(other, StopReason::Other("brand_new".to_owned()));
    chat.say("go on");
    let empty = chat.ask(&*model).await.expect("an answer");
    assert!(empty.blocks.is_empty(), "{empty:?}");
}

pub(super) async fn cuts_at_max_tokens(model: Arc<dyn Model>) {
    let steps = json!([{"calls": [
        {"name": "bash", "input": {"command": "echo a"}},
        {"name": "bash", "input": {"command": "echo a very long one"}},
    ], "cut": 20}]);
    let cut = Chat::script(&steps).ask(&*model).await.expect("an answer");
    assert_eq!(cut.stop_reason, StopReason::MaxTokens);
    let marks: Vec<_> = cut.calls.iter().map(|call| call.cut).collect();
    assert_eq!(marks, [false, true]);
    assert_eq!(cut.calls[1].input.get(), "{}");
    let mut small = Chat::script(&json!([{"text": "0123456789", "calls": [{"name": "bash"}]}]));
    small.fields.insert("max_tokens".to_owned(), json!(2));
    let small = small.ask(&*model).await.expect("an answer");
    assert_eq!(text(&small), "01234567");
    assert_eq!(small.stop_reason, StopReason::MaxTokens);
    assert!(small.calls.is_empty());
}

pub(super) async fn pauses_and_goes_on(model: Arc<dyn Model>) {
    let mut chat = Chat::script(&json!([
        {"text": "one", "stop": "pause_turn"},
        {"text": "two"},
    ]));
    assert_eq!(chat.go(&*model).await.stop_reason, StopReason::PauseTurn);
    assert_eq!(text(&chat.go(&*model).await), "two");
    let error = chat.ask(&*model).await.expect_err("nothing to answer");
    assert!(error.to_string().contains("prefill"), "{error}");
}

pub(super) async fn reports_usage(model: Arc<dyn Model>) {
    let mut chat = Chat::script(&json!([
        {"text": "x", "usage": {"input_tokens": 7, "output_tokens": 9,
            "cache_read_input_tokens": 100, "ephemeral_5m_input_tokens": 20,
            "ephemeral_1h_input_tokens": 30, "web_search_requests": 2}},
        {"text": "0123456789"},
    ]));
    chat.fields.insert("speed".to_owned(), json!("fast"));
    chat.fields.insert("inference_geo".to_owned(), json!("us"));
    let usage = chat.go(&*model).await.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (7, 9));
    assert_eq!(usage.cache_read_input_tokens, 100);
    assert_eq!(usage.cache_creation_input_tokens, 50);
    assert_eq!((usage.ephemeral_5m, usage.ephemeral_1h), (20, 30));
    assert_eq!(usage.web_search_requests, 2);
    assert_eq!(usage.speed, Some(Speed::Fast));
    assert_eq!(usage.inference_geo.as_deref(), Some("us"));
    chat.say("go on");
    let estimated = chat.go(&*model).await.usage;
    assert_eq!(estimated.output_tokens, 3);
    assert!(estimated.input_tokens > 50, "{estimated:?}");
}

pub(super) async fn streams_long_answers(model: Arc<dyn Model>) {
    let chat = Chat::script(&json!([
        {"content": [{"filler": 50_000}], "pace": {"tokens": 100}},
    ]));
    let response = chat.ask(&*model).await.expect("an answer");
    assert_eq!(text(&response).len(), 200_000);
    assert_eq!(response.usage.output_tokens, 50_000);
}

pub(super) async fn repeats_itself(model: Arc<dyn Model>) {
    let chat = Chat::script(&json!([{"thinking": "hm", "calls": [{"name": "bash"}]}]));
    let bytes = async || {
        let mut events = model.stream(chat.call()).await.expect("a stream");
        let mut all = Vec::new();
        while let Some(event) = events.next().await {
            all.push(event.expect("an event").raw().to_owned());
        }
        all
    };
    assert_eq!(bytes().await, bytes().await);
}

pub(super) async fn serves_many_at_once(model: Arc<dyn Model>) {
    let ask = |number: usize| {
        let model = Arc::clone(&model);
        let text = format!("number {number}");
        let chat = Chat::script(&json!([{"text": text, "pace": {"tokens": 1, "ms": 1}}]));
        async move { (text, chat.ask(&*model).await.expect("an answer")) }
    };
    for (expected, response) in join_all((0..32).map(ask)).await {
        assert_eq!(text(&response), expected);
    }
}

pub(super) async fn survives_being_dropped(model: Arc<dyn Model>) {
    let slow = Chat::script(&json!([
        {"content": [{"filler": 1_000}], "pace": {"tokens": 1, "ms": 60_000}},
    ]));
    for _ in 0..4 {
        let mut events = model.stream(slow.call()).await.expect("a stream");
        assert!(events.next().await.expect("a first event").is_ok());
        drop(events);
    }
    let after = Chat::script(&json!([{"text": "still here"}]));
    assert_eq!(
        text(&after.ask(&*model).await.expect("an answer")),
        "still here"
    );
}

pub(super) async fn follows_without_a_script(model: Arc<dyn Model>) {
    let mut chat = Chat::new("run: echo hello");
    let first = chat.go(&*model).await;
    assert_eq!(first.calls[0].input.get(), r#"{"command":"echo hello"}"#);
    chat.results(&first, "hello");
    assert!(text(&chat.go(&*model).await).contains("hello 1"));
    let mut free = Chat::new("What is the answer?");
    let first = free.go(&*model).await;
    assert_eq!(first.calls.len(), 1);
    free.results(&first, "Linux");
    let second = free.go(&*model).await;
    let said = text(&second);
    for part in ["Linux", "What is the answer?", "OUTLAST_UPSTREAM_API_KEY"] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    free.say("And now?");
    let third = free.go(&*model).await;
    assert!(third.calls.is_empty() && text(&third).contains("And now?"));
}
