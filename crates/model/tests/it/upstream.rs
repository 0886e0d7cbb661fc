//! The client against well-behaved, odd and hostile servers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use futures::StreamExt as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use outlast_model::accumulate::collect;
use outlast_model::conformance::{self, Chat};
use outlast_model::upstream::KeyHeader;
use outlast_model::wire::{Options, Tape};
use outlast_model::{Error, Model as _, RetryKind, StopReason, Upstream, upstream};

use crate::Server;

/// Long enough for anything on loopback.
const DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn the_client_passes_the_suite() {
    let server = Server::scripted(Options::default()).await;
    conformance::run(|| async { Arc::new(server.upstream()) as _ }).await;
}

async fn answering(
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
) -> Server {
    let answer = move || async move {
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in headers {
            response.headers_mut().insert(*name, value.parse().unwrap());
        }
        response
    };
    Server::start(Router::new().fallback(answer)).await
}

const SSE: &[(&str, &str)] = &[("content-type", "text/event-stream")];

async fn ask(server: &Server) -> Result<outlast_model::Response, Error> {
    Chat::new("x").ask(&server.upstream()).await
}

#[tokio::test]
async fn the_body_goes_out_byte_for_byte_with_its_headers() {
    for (header, name, value) in [
        (KeyHeader::ApiKey, "x-api-key", "sk-1"),
        (KeyHeader::Bearer, "authorization", "Bearer sk-1"),
    ] {
        let tape = Arc::new(Tape::default());
        let server = Server::scripted(Options {
            recorder: Some(tape.clone()),
            ..Options::default()
        })
        .await;
        let upstream = Upstream::new(upstream::Options {
            key: Some("sk-1".into()),
            key_header: header,
            betas: vec!["a-1".to_owned(), "b-2".to_owned()],
            ..server.options()
        })
        .unwrap();
        let body = r#"{ "model":"m","max_tokens":5.0e0,"stream" : true, "messages":[]}"#;
        let raw = serde_json::value::RawValue::from_string(body.to_owned()).unwrap();
        let error = upstream.stream(Chat::call_with(raw)).await.err().unwrap();
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        let captured = tape.captured().pop().unwrap();
        assert_eq!(captured.body, body.as_bytes());
        assert_eq!(captured.path, "/v1/messages");
        let sent: &HeaderMap = &captured.headers;
        assert_eq!(sent[name], value);
        assert_eq!(sent["anthropic-version"], "2023-06-01");
        assert_eq!(sent["anthropic-beta"], "a-1,b-2");
        assert_eq!(sent["content-type"], "application/json");
    }
}

#[tokio::test]
async fn a_server_that_is_not_quite_the_hosted_api_is_understood() {
    let server = answering(
        200,
        SSE,
        "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"chatcmpl-x\",\
         \"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"m.gguf\",\
         \"stop_reason\":null,\"usage\":{\"input_tokens\":3,\"output_tokens\":0}}}\r\n\r\n\
         data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
         data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n\
         data: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
         data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n\
         data: {\"type\":\"message_stop\"}\n\ndata: [DONE]\n\n",
    )
    .await;
    let response = ask(&server).await.unwrap();
    assert_eq!(response.id, "chatcmpl-x");
    assert_eq!(response.texts[0].text, "hi");
    assert_eq!(response.stop_reason, StopReason::EndTurn);
    assert_eq!(
        (response.usage.input_tokens, response.usage.output_tokens),
        (3, 2)
    );
}

#[tokio::test]
async fn answers_that_are_no_stream_are_failures() {
    let json = &[("content-type", "application/json; charset=utf-8")];
    let server = answering(200, json, r#"{"id":"msg","content":[]}"#).await;
    let error = ask(&server).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the model's provider answered without a stream"
    );
    let page = &[("content-type", "text/html")];
    let server = answering(200, page, "<html>welcome</html>").await;
    let error = ask(&server).await.unwrap_err().to_string();
    assert_eq!(error, "the model's provider answered without a stream");
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    let server = answering(200, json, overloaded).await;
    let error = ask(&server).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Retry {
                kind: RetryKind::Overloaded,
                ..
            }
        ),
        "{error:?}"
    );
    let server = answering(502, &[], "<html>bad gateway</html>").await;
    let error = ask(&server).await.unwrap_err();
    assert!(
        error.is_retryable() && error.to_string().contains("bad gateway"),
        "{error:?}"
    );
    let server = answering(200, SSE, "").await;
    assert!(ask(&server).await.unwrap_err().is_retryable());
}

#[tokio::test]
async fn headers_of_a_refusal_are_heeded() {
    let headers = &[
        ("retry-after", "Sun, 06 Nov 1994 08:49:49 GMT"),
        ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("content-type", "application/json"),
    ];
    let server = answering(429, headers, "{}").await;
    let Error::Retry { after, .. } = ask(&server).await.unwrap_err() else {
        panic!("not retryable");
    };
    assert_eq!(after, Some(Duration::from_secs(12)));
    let server = answering(429, &[("x-should-retry", "false")], "no more today").await;
    let error = ask(&server).await.unwrap_err();
    assert_eq!(
        error,
        Error::Refused {
            message: "no more today".to_owned()
        }
    );
}

#[tokio::test]
async fn the_key_never_stands_in_an_error() {
    let body = r#"{"error":{"type":"authentication_error","message":"bad key sk-canary-1!"}}"#;
    for (status, headers) in [(401, &[] as &[(&str, &str)]), (500, &[]), (400, &[])] {
        let server = answering(status, headers, body).await;
        let error = keyed(&server).await;
        assert_eq!(error.to_string(), "bad key [key]!");
        assert!(!format!("{error:?}").contains("canary"));
    }
    let server = answering(
        200,
        SSE,
        "data: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"sk-canary-1\"}}\n\n",
    )
    .await;
    assert_eq!(keyed(&server).await.to_string(), "[key]");
}

async fn keyed(server: &Server) -> Error {
    let upstream = Upstream::new(upstream::Options {
        key: Some("sk-canary-1".into()),
        ..server.options()
    })
    .unwrap();
    Chat::new("x").ask(&upstream).await.unwrap_err()
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = Arc::new(Tape::default());
    let away = Server::scripted(Options {
        recorder: Some(target.clone()),
        ..Options::default()
    })
    .await;
    let to = format!("{}/v1/messages", away.url());
    let server = Server::start(Router::new().fallback(move || {
        let to = to.clone();
        async move { Redirect::temporary(&to).into_response() }
    }))
    .await;
    let error = ask(&server).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    assert!(target.captured().is_empty());
}

#[tokio::test]
async fn nobody_there_is_retryable_and_shows_no_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let upstream = Upstream::new(upstream::Options::new(format!("http://{address}"))).unwrap();
    let error = Chat::new("x").ask(&upstream).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("cannot be reached"), "{error}");
}

#[tokio::test]
async fn silence_is_bounded_before_and_within_the_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = upstream::Options::new(format!("http://{}", silent.local_addr().unwrap()));
    options.first_byte_timeout = Duration::from_millis(50);
    let error = Chat::new("x")
        .ask(&Upstream::new(options).unwrap())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("did not answer within 0.05 s"),
        "{error}"
    );
    let server = Server::scripted(Options::default()).await;
    let mut options = server.options();
    options.idle_timeout = Duration::from_millis(50);
    let upstream = Upstream::new(options).unwrap();
    let chat = Chat::script(&json!([{"text": "x", "pause_ms": 60_000}]));
    let error = chat.ask(&upstream).await.unwrap_err();
    assert!(error.to_string().contains("silent for 0.05 s"), "{error}");
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let server = Server::scripted(Options::default()).await;
    let mut options = server.options();
    options.max_answer_bytes = 10_000;
    let upstream = Upstream::new(options).unwrap();
    let chat = Chat::script(&json!([{"content": [{"filler": 50_000}]}]));
    let error = chat.ask(&upstream).await.unwrap_err();
    assert!(
        error.to_string().contains("longer than 10000 bytes"),
        "{error}"
    );
}

/// A server that sends a first event and then only listens; says when the client is gone.
async fn listening() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut task = JoinSet::new();
    task.spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        assert!(socket.read(&mut buffer).await.unwrap() > 0);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let ping = "data: {\"type\":\"ping\"}\n\n";
        socket
            .write_all(format!("{head}{ping}").as_bytes())
            .await
            .unwrap();
        // Zero bytes or an error: the connection is closed.
        while socket.read(&mut buffer).await.unwrap_or(0) > 0 {}
    });
    (url, task)
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let (url, mut gone) = listening().await;
    let upstream = Upstream::new(upstream::Options::new(url)).unwrap();
    let mut events = upstream.stream(Chat::new("x").call()).await.unwrap();
    assert!(events.next().await.unwrap().is_ok());
    drop(events);
    timeout(DEADLINE, gone.join_next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

/// A server that promises to keep connections and closes each after one answer.
async fn breaking_promises() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut task = JoinSet::new();
    task.spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 64 * 1024];
            assert!(socket.read(&mut buffer).await.unwrap() > 0);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                keep-alive: timeout=5, max=100\r\ncontent-length: ";
            let body = "data: {\"type\":\"message_start\",\"message\":{}}\n\n\
                data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n\
                data: {\"type\":\"message_stop\"}\n\n";
            let answer = format!("{head}{}\r\n\r\n{body}", body.len());
            socket.write_all(answer.as_bytes()).await.unwrap();
            // The client may be fast enough to use the connection once more before it closes.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    (url, task)
}

#[tokio::test]
async fn a_server_that_does_not_keep_its_connections_serves_every_request() {
    let (url, _task) = breaking_promises().await;
    let upstream = Upstream::new(upstream::Options::new(url)).unwrap();
    for _ in 0..10 {
        let events = upstream.stream(Chat::new("x").call()).await.unwrap();
        timeout(DEADLINE, collect(events)).await.unwrap().unwrap();
    }
}
