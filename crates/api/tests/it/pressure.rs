//! Too much at once: every bound has an answer, and one that floods holds up itself alone.

use std::{convert::Infallible, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use http::{Method, Request};
use outlast_api::Bounds;
use outlast_session::Step;
use outlast_testkit::faulty::Fault;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    bench::{Bench, KEY, Reply, Setup, id, message, request, whole},
    brain::Brain,
    files::{form, posted},
};

/// Checks an answer that says to come back later.
#[track_caller]
fn told_to_come_back(reply: &Reply, status: u16, kind: &str) {
    assert_eq!(reply.status.as_u16(), status, "{}", reply.text);
    assert_eq!(reply.json()["error"]["type"], kind);
    let after: u64 = reply.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=60).contains(&after));
    assert_ne!(
        reply
            .headers
            .get("x-should-retry")
            .map(|word| word.as_bytes()),
        Some(&b"false"[..])
    );
}

fn events(session: &str) -> String {
    format!("/v1/sessions/{session}/events")
}

fn said(text: &str) -> Value {
    json!({ "events": [message(text)] })
}

async fn bounded(bounds: Bounds) -> Bench {
    Bench::with(Setup {
        bounds,
        ..Setup::default()
    })
    .await
}

/// Lets a request get as far as it can, which is not to its end.
async fn waits(request: &mut (impl Future + Unpin)) {
    for _ in 0..10 {
        assert!(futures::poll!(&mut *request).is_pending());
        tokio::task::yield_now().await;
    }
}

/// A request whose body comes when a test says so.
fn slow(path: &str, kind: &str) -> (mpsc::Sender<Bytes>, Request<Body>) {
    let (sender, receiver) = mpsc::channel::<Bytes>(1);
    let chunks = stream::unfold(receiver, async |mut receiver| {
        let chunk = receiver.recv().await?;
        Some((Ok::<_, Infallible>(chunk), receiver))
    });
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("authorization", format!("Bearer {KEY}"))
        .header("content-type", kind)
        .body(Body::from_stream(chunks))
        .unwrap();
    (sender, request)
}

#[tokio::test]
async fn a_full_store_is_too_busy_and_a_full_session_has_too_many_callers() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    for (fault, status, kind) in [
        (Fault::Full, 529, "overloaded_error"),
        (Fault::Crowded, 429, "rate_limit_error"),
    ] {
        bench.store.fail_at(1, fault);
        let reply = bench.post(&events(&session), said("x")).await;
        told_to_come_back(&reply, status, kind);
        bench.post(&events(&session), said("x")).await.ok();
    }
    let waits = bench.log(&session).await;
    assert_eq!(waits.len(), 2, "what was refused is not there: {waits:?}");
}

#[tokio::test]
async fn inputs_of_a_session_wait_up_to_a_bound() {
    let bench = Bench::with(Setup {
        brains: 1,
        ..Setup::default()
    })
    .await;
    let session = bench.session().await;
    let many: Vec<Value> = (0..1_000).map(|_| message("x")).collect();
    bench
        .post(&events(&session), json!({ "events": many }))
        .await
        .ok();
    let reply = bench.post(&events(&session), said("one more")).await;
    told_to_come_back(&reply, 429, "rate_limit_error");
    // Once they are taken in there is room again.
    Brain::new(bench.lease().await).take_in().await;
    bench.post(&events(&session), said("one more")).await.ok();
}

#[tokio::test]
async fn bodies_of_all_requests_share_one_memory() {
    let bench = bounded(Bounds {
        body_bytes: 64 << 10,
        ..Bounds::default()
    })
    .await;
    let session = bench.session().await;
    let text = said(&"x".repeat(40 << 10)).to_string();
    let (rest, request) = slow(&events(&session), "application/json");
    let first = bench.ask(request);
    tokio::pin!(first);
    let (head, tail) = text.as_bytes().split_at(text.len() - 10);
    rest.send(Bytes::copy_from_slice(head)).await.unwrap();
    waits(&mut first).await;
    let second = bench
        .post(&events(&session), said(&"y".repeat(40 << 10)))
        .await;
    told_to_come_back(&second, 529, "overloaded_error");
    bench
        .post(&events(&session), said("a short one has room"))
        .await
        .ok();
    rest.send(Bytes::copy_from_slice(tail)).await.unwrap();
    drop(rest);
    first.await.ok();
    bench
        .post(&events(&session), said(&"y".repeat(40 << 10)))
        .await
        .ok();
}

#[tokio::test]
async fn so_many_uploads_are_under_way_at_once() {
    let bench = bounded(Bounds {
        uploads: 1,
        ..Bounds::default()
    })
    .await;
    let whole_form = form("; filename=\"a\"", "", b"content", &[]);
    let (rest, request) = slow("/v1/files", "multipart/form-data; boundary=edge");
    let first = bench.raw(request);
    tokio::pin!(first);
    rest.send(Bytes::copy_from_slice(&whole_form[..20]))
        .await
        .unwrap();
    waits(&mut first).await;
    let second = bench.ask(posted(whole_form.clone(), &[])).await;
    told_to_come_back(&second, 529, "overloaded_error");
    rest.send(Bytes::copy_from_slice(&whole_form[20..]))
        .await
        .unwrap();
    drop(rest);
    whole(first.await).await.ok();
    bench.ask(posted(whole_form, &[])).await.ok();
}

#[tokio::test]
async fn attempts_whose_end_nobody_knows_are_remembered_up_to_a_bound() {
    let bench = bounded(Bounds {
        attempts: 2,
        ..Bounds::default()
    })
    .await;
    let session = bench.session().await;
    let send = async |text: &str, headers: &[(&str, &str)]| {
        let body = said(text).to_string();
        bench
            .ask(request(Method::POST, &events(&session), headers, &body))
            .await
    };
    let first = &[("x-stainless-retry-count", "0")][..];
    for text in ["a", "b"] {
        bench.store.fail_at(1, Fault::After);
        assert_eq!(send(text, first).await.status, 503);
    }
    told_to_come_back(&send("c", first).await, 529, "overloaded_error");
    // Who repeats with a key, or not at all, needs no such memory.
    send("c", &[("idempotency-key", "c")]).await.ok();
    send("d", &[]).await.ok();
    // Those that are known find their answers, and make room.
    let again = send("a", &[("x-stainless-retry-count", "1")]).await;
    assert_eq!(again.headers["idempotent-replayed"], "true");
    again.ok();
    send("c", first).await.ok();
}

#[tokio::test]
async fn a_session_that_floods_gives_way_to_others() {
    let bench = Bench::with(Setup {
        brains: 1,
        ..Setup::default()
    })
    .await;
    let floods = bench.session().await;
    let (agent, environment) = bench.home().await;
    let body = json!({ "agent": agent, "environment_id": environment });
    let others = [
        id(&bench.post("/v1/sessions", body.clone()).await.ok()),
        id(&bench.post("/v1/sessions", body).await.ok()),
    ];
    bench.say(&floods, "first").await;
    let mut lease = bench.lease().await;
    assert_eq!(lease.session().to_string(), floods);
    assert!(!lease.is_wanted(), "nobody waits");
    for other in &others {
        bench.say(&floods, "more").await;
        bench.say(other, "waits").await;
    }
    let mut order = Vec::new();
    for _ in 0..3 {
        assert!(lease.is_wanted());
        lease
            .propose(Step::TakeIn { last: u64::MAX })
            .await
            .unwrap();
        // Whoever gives way now has waited for a shorter time than whoever waits already.
        bench.clock.advance(Duration::from_millis(1));
        lease.propose(Step::Release).await.unwrap();
        drop(lease);
        // A slot is free, and yet who comes now stands behind those who wait.
        bench.say(&floods, "more").await;
        lease = bench.lease().await;
        order.push(lease.session().to_string());
    }
    assert_eq!(order, [others[0].as_str(), &others[1], &floods]);
}
