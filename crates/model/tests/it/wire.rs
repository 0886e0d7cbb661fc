//! The scripted model over the wire, as a stranger's client sees it.

use std::sync::Arc;

use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};

use outlast_model::wire::{Options, Tape};

use crate::Server;

async fn post(server: &Server, path: &str, body: &Value) -> Response {
    Client::new()
        .post(format!("{}{path}", server.url()))
        .header("anthropic-version", "2023-06-01")
        .header("content-type", "application/json")
        .body(body.to_string())
        .send()
        .await
        .unwrap()
}

fn body(script: Value) -> Value {
    json!({"model": "scripted", "max_tokens": 100, "messages": [
        {"role": "user", "content": json!({ "script": script }).to_string()}]})
}

#[tokio::test]
async fn a_plain_answer_is_one_message() {
    let server = Server::scripted(Options::default()).await;
    let request =
        body(json!([{"text": "hi", "calls": [{"name": "bash", "input": {"b": 1, "a": 2.50}}]}]));
    let response = post(&server, "/v1/messages?beta=true", &request).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(
        response.headers()["request-id"]
            .to_str()
            .unwrap()
            .starts_with("req_")
    );
    assert_eq!(response.headers()["content-type"], "application/json");
    let mut message: Value = response.json().await.unwrap();
    message["id"].take();
    message["content"][1]["id"].take();
    message["usage"].take();
    assert_eq!(
        message,
        json!({"id": null, "type": "message", "role": "assistant", "model": "scripted",
            "content": [{"type": "text", "text": "hi"},
                {"type": "tool_use", "id": null, "name": "bash", "input": {"b": 1, "a": 2.5}}],
            "stop_reason": "tool_use", "stop_sequence": null, "stop_details": null, "usage": null})
    );
}

#[tokio::test]
async fn a_streamed_answer_has_named_frames() {
    let server = Server::scripted(Options::default()).await;
    let mut request = body(json!([{"text": "hi"}]));
    request["stream"] = json!(true);
    let response = post(&server, "/v1/messages", &request).await;
    assert_eq!(
        response.headers()["content-type"],
        "text/event-stream; charset=utf-8"
    );
    let text = response.text().await.unwrap();
    assert!(text.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
    for frame in text.trim_end().split("\n\n") {
        let (event, data) = frame.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(event.strip_prefix("event: ").unwrap(), data["type"]);
    }
}

#[tokio::test]
async fn refusals_have_the_shape_of_the_api() {
    let server = Server::scripted(Options::default()).await;
    let fault = json!([{"error": {"status": 429, "retry_after_ms": 1500}}]);
    let response = post(&server, "/v1/messages", &body(fault)).await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "2");
    assert_eq!(response.headers()["retry-after-ms"], "1500");
    let id = response.headers()["request-id"]
        .to_str()
        .unwrap()
        .to_owned();
    let error: Value = response.json().await.unwrap();
    assert_eq!(
        error,
        json!({"type": "error", "request_id": id,
            "error": {"type": "rate_limit_error", "message": "scripted rate_limit_error"}})
    );
    for (path, request, status, kind) in [
        ("/v1/messages", json!({}), 400, "invalid_request_error"),
        ("/v1/nothing", json!({}), 404, "not_found_error"),
        ("/v1/models", json!({}), 405, "invalid_request_error"),
        (
            "/v1/messages",
            body(json!([{"error": {"midway": true, "status": 529}, "text": "x"}])),
            529,
            "overloaded_error",
        ),
    ] {
        let response = post(&server, path, &request).await;
        assert_eq!(response.status().as_u16(), status, "{path}");
        assert!(response.headers().contains_key("request-id"));
        let error: Value = response.json().await.unwrap();
        assert_eq!(error["error"]["type"], kind, "{path}");
    }
    let bare = Client::new()
        .post(format!("{}/v1/messages", server.url()))
        .send()
        .await
        .unwrap();
    let error: Value = bare.json().await.unwrap();
    assert_eq!(
        error["error"]["message"],
        "anthropic-version: header is required"
    );
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_413() {
    let server = Server::scripted(Options::default()).await;
    let huge = Value::from("x".repeat(33 * 1024 * 1024));
    let response = post(&server, "/v1/messages", &huge).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn models_and_tokens_are_told() {
    let server = Server::scripted(Options::default()).await;
    let get = async |path: &str| {
        let request = Client::new().get(format!("{}{path}", server.url()));
        let response = request
            .header("anthropic-version", "2026-10-21")
            .send()
            .await
            .unwrap();
        response.json::<Value>().await.unwrap()
    };
    assert_eq!(get("/v1/models").await["data"][0]["id"], "scripted");
    assert_eq!(get("/v1/models/scripted").await["type"], "model");
    assert_eq!(
        get("/v1/models/other").await["error"]["type"],
        "not_found_error"
    );
    let request = json!({"model": "x", "messages": [{"role": "user", "content": "0123456789"}]});
    let counted: Value = post(&server, "/v1/messages/count_tokens", &request)
        .await
        .json()
        .await
        .unwrap();
    assert!(counted["input_tokens"].as_u64().unwrap() >= 3);
}

#[tokio::test]
async fn a_key_is_asked_for_where_one_is_set_and_requests_can_be_seen() {
    let tape = Arc::new(Tape::default());
    let server = Server::scripted(Options {
        key: Some("right".into()),
        recorder: Some(tape.clone()),
    })
    .await;
    let status = async |name: &str, value: &str| {
        let request = Client::new().get(format!("{}/v1/models", server.url()));
        let request = request
            .header("anthropic-version", "2023-06-01")
            .header(name, value);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status("x-api-key", "right").await, 200);
    assert_eq!(status("authorization", "Bearer right").await, 200);
    assert_eq!(status("x-api-key", "wrong").await, 401);
    assert_eq!(status("x-other", "right").await, 401);
    let captured = tape.captured();
    assert_eq!(captured.len(), 4);
    assert_eq!(captured[0].path, "/v1/models");
    assert_eq!(captured[2].headers["x-api-key"], "wrong");
}
