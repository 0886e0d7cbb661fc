//! Tokens of brains outside, and what they ask models for.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use http_body_util::BodyExt as _;
use outlast_egress::Front;
use outlast_kernel::{Asker, Lease};
use outlast_model::Facts;
use outlast_protocol::{ErrorCode, Problem, id::EventId};
use outlast_session::{After, Kind, Respond, Said, Step, Stop, json as text};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::lives::{Life, World};

fn message() -> Value {
    json!([{"type": "user.message", "content": [{"type": "text", "text": "hi"}]}])
}

fn asker(lease: &Lease) -> Asker {
    Asker {
        session: lease.session(),
        thread: lease.thread_number(),
        epoch: lease.epoch(),
    }
}

/// Asks the scripted model as a brain outside does.
async fn ask(life: &Life, token: &str, stream: bool) -> Response {
    let facts = Arc::new(Facts::load(None).unwrap());
    let front = Front::new(life.kernel.clone(), facts, None);
    let script = json!({"script": [{"text": "From outside."}]}).to_string();
    let body = json!({
        "model": "scripted", "max_tokens": 99, "stream": stream,
        "messages": [{"role": "user", "content": script}],
    });
    let request = http::Request::post("/outlast/v1/brains/v1/messages")
        .header("authorization", format!("Bearer {token}"))
        .body(Body::from(body.to_string()))
        .unwrap();
    front.brains().oneshot(request).await.unwrap()
}

/// Returns the span that an answer names, and its body.
async fn answered(response: Response) -> (EventId, String) {
    assert_eq!(response.status(), 200);
    let span = response.headers()["outlast-span-id"].to_str().unwrap();
    let span = span.parse().unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (span, String::from_utf8(body.to_vec()).unwrap())
}

/// Returns the code and the words of a refusal.
fn refused(response: &Response) -> (ErrorCode, String) {
    let problem = response.extensions().get::<Problem>().unwrap();
    (problem.code, problem.message.clone())
}

#[tokio::test(start_paused = true)]
async fn what_a_brain_outside_asks_has_its_span_and_its_usage() {
    let world = World::new(1).await;
    let (life, mut claims) = world.bare().await;
    let session = world.session(&life).await;
    life.send(session, &message()).await;
    let lease = claims.recv().await.unwrap();
    lease
        .propose(Step::TakeIn { last: u64::MAX })
        .await
        .unwrap();
    let token = life.kernel.brain_token(asker(&lease));
    let token = token.expose_secret();
    let mut spans = Vec::new();
    for stream in [false, true] {
        let (span, body) = answered(ask(&life, token, stream).await).await;
        assert!(body.contains("outside."), "{body}");
        assert_eq!(body.starts_with("event: message_start"), stream);
        spans.push(span);
    }
    // Gone in the middle: nobody knows what was used in the end.
    let broken = ask(&life, token, true).await;
    let span = broken.headers()["outlast-span-id"].to_str().unwrap();
    spans.push(span.parse().unwrap());
    drop(broken);
    let (last, _) = answered(ask(&life, token, true).await).await;
    spans.push(last);
    let words = text(&json!({ "content": [{ "type": "text", "text": "words" }] }));
    let response = Respond {
        request: last,
        blocks: Vec::new(),
        stop: "end_turn".to_owned(),
        details: None,
        after: After::Answer,
        events: vec![Said::Message(lease.event_id(), words)],
    };
    lease
        .propose(Step::Respond(Box::new(response)))
        .await
        .unwrap();
    lease.propose(Step::EndTurn(Stop::EndTurn)).await.unwrap();

    let log = world.log(session).await;
    let starts = log
        .iter()
        .filter(|record| record.kind == Kind::RequestStart);
    let starts: Vec<EventId> = starts.filter_map(|record| record.event).collect();
    assert_eq!(starts, spans);
    let ends = log
        .iter()
        .filter(|record| record.kind == Kind::RequestEnded);
    let ends: Vec<Value> = ends
        .map(|record| serde_json::from_str(record.body.text()).unwrap())
        .collect();
    let shown: Vec<(&Value, bool, bool)> = ends
        .iter()
        .map(|end| {
            let used = end["tokens"]["output"].as_u64().unwrap_or(0) > 0;
            (&end["request"], end["failed"] == true, used)
        })
        .collect();
    let named: Vec<Value> = spans.iter().map(|span| json!(span)).collect();
    let [plain, streamed, gone, end] = &named[..] else {
        panic!("{named:?}");
    };
    let expected = [
        (plain, false, true),
        (streamed, false, true),
        (gone, true, false),
        (end, false, true),
    ];
    assert_eq!(shown, expected, "{ends:?}");
    let late = refused(&ask(&life, token, false).await);
    assert_eq!(
        late.0,
        ErrorCode::Permission,
        "its lease was given back: {late:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_log_does_not_want_is_not_answered() {
    let world = World::new(1).await;
    let (life, mut claims) = world.bare().await;
    let session = world.session(&life).await;
    life.send(session, &message()).await;
    let lease = claims.recv().await.unwrap();
    let token = life.kernel.brain_token(asker(&lease));
    // No turn is open yet: nothing was taken in.
    let early = refused(&ask(&life, token.expose_secret(), false).await);
    assert_eq!(early.0, ErrorCode::Permission, "{early:?}");
    let log = world.log(session).await;
    assert!(!log.iter().any(|record| record.kind == Kind::RequestStart));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_of_one_lease_and_one_server() {
    let world = World::new(1).await;
    let (life, other) = (world.start(None).await, world.start(None).await);
    let session = world.session(&life).await;
    let asker = Asker {
        session,
        thread: 0,
        epoch: 1,
    };
    let token = life.kernel.brain_token(asker);
    let token = token.expose_secret();
    assert_eq!(life.kernel.asker(token), Ok(asker));
    let elsewhere = other.kernel.asker(token).unwrap_err();
    assert_eq!(elsewhere.code, ErrorCode::Authentication, "another key");
    // Changed at any place it is none.
    for place in 0..token.len() {
        let mut changed = token.as_bytes().to_vec();
        changed[place] = if changed[place] == b'0' { b'1' } else { b'0' };
        let changed = String::from_utf8(changed).unwrap();
        let refused = life.kernel.asker(&changed).unwrap_err();
        assert_eq!(refused, elsewhere, "{changed}");
    }
    for text in [
        "",
        "outlast_brain_",
        "outlast_brain_.",
        &token[..token.len() - 1],
    ] {
        assert_eq!(life.kernel.asker(text), Err(elsewhere.clone()));
    }
    let over = life.kernel.holds(asker).await.unwrap_err();
    assert_eq!(over.code, ErrorCode::Permission, "nobody works on it");
}
