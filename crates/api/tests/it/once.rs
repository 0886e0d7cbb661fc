//! Requests that are repeated are done once.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use axum::response::Response;
use http::Method;
use outlast_api::Connection;
use outlast_session::Proposal;
use outlast_testkit::faulty::Fault;
use serde_json::{Value, json};

use crate::bench::{Bench, Reply, Setup, id, message, request, whole};

const COUNT: &str = "x-stainless-retry-count";
const KEY: &str = "idempotency-key";

/// Sends a text with a count of retries and loses the answer.
async fn lose(bench: &Bench, path: &str, body: &Value, headers: &[(&str, &str)]) -> u16 {
    let response = bench
        .raw(request(Method::POST, path, headers, &body.to_string()))
        .await;
    response.status().as_u16()
}

/// Sends a text with a count of retries and reads the answer whole.
async fn read(bench: &Bench, path: &str, body: &Value, headers: &[(&str, &str)]) -> Reply {
    bench
        .ask(request(Method::POST, path, headers, &body.to_string()))
        .await
}

fn hi() -> Value {
    json!({ "events": [message("hi")] })
}

/// Lets sends meet a fault.
fn fail_sends(bench: &Bench, fault: Fault) {
    bench.store.hook(move |_, _, append| match append.proposal {
        Proposal::Send(_) => fault,
        _ => Fault::None,
    });
}

async fn messages(bench: &Bench, session: &str) -> Vec<String> {
    let log = bench.log(session).await;
    log.iter()
        .filter(|event| event["type"] == "user.message")
        .map(id)
        .collect()
}

async fn start() -> (Bench, String, String) {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let path = format!("/v1/sessions/{session}/events");
    (bench, session, path)
}

#[tokio::test]
async fn a_retry_gets_the_answer_that_was_lost() {
    let (bench, session, path) = start().await;
    assert_eq!(lose(&bench, &path, &hi(), &[(COUNT, "0")]).await, 200);
    let one = messages(&bench, &session).await;
    assert_eq!(one.len(), 1);
    assert_eq!(lose(&bench, &path, &hi(), &[(COUNT, "1")]).await, 200);
    let reply = read(&bench, &path, &hi(), &[(COUNT, "2")]).await;
    assert_eq!(id(&reply.ok()["data"][0]), one[0]);
    assert_eq!(messages(&bench, &session).await, one);
}

#[tokio::test]
async fn an_answer_that_was_read_answers_no_other_chain() {
    let (bench, session, path) = start().await;
    read(&bench, &path, &hi(), &[(COUNT, "0")]).await.ok();
    // A later call with the same bytes, whose first attempt never got here.
    read(&bench, &path, &hi(), &[(COUNT, "1")]).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 2);
    // Its own retry would have found it; this one is of a third chain.
    read(&bench, &path, &hi(), &[(COUNT, "2")]).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 3);
}

#[tokio::test]
async fn a_replayed_answer_that_was_read_answers_no_more() {
    let (bench, session, path) = start().await;
    lose(&bench, &path, &hi(), &[(COUNT, "0")]).await;
    read(&bench, &path, &hi(), &[(COUNT, "1")]).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 1);
    read(&bench, &path, &hi(), &[(COUNT, "2")]).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 2);
}

#[tokio::test]
async fn a_first_attempt_is_always_new() {
    let (bench, session, path) = start().await;
    for count in 1..=3 {
        lose(&bench, &path, &hi(), &[(COUNT, "0")]).await;
        assert_eq!(messages(&bench, &session).await.len(), count);
    }
    let all = messages(&bench, &session).await;
    let reply = read(&bench, &path, &hi(), &[(COUNT, "1")]).await;
    assert_eq!(
        Some(&id(&reply.ok()["data"][0])),
        all.last(),
        "the answer of its own chain"
    );
}

#[tokio::test]
async fn a_refused_first_attempt_ends_the_older_chain() {
    let (bench, session, path) = start().await;
    let interrupt = json!({ "events": [{ "type": "user.interrupt" }] });
    lose(&bench, &path, &interrupt, &[(COUNT, "0")]).await;
    bench
        .poke(&format!("/v1/sessions/{session}/archive"))
        .await
        .ok();
    // Refused now, and its retry too: what the older chain was told is none of theirs.
    assert_eq!(lose(&bench, &path, &interrupt, &[(COUNT, "0")]).await, 400);
    read(&bench, &path, &interrupt, &[(COUNT, "1")])
        .await
        .refused(400);
}

#[tokio::test]
async fn a_commit_whose_acknowledgement_was_lost_is_found_again() {
    let (bench, session, path) = start().await;
    // An older chain with the same bytes, whose answer was lost too.
    lose(&bench, &path, &hi(), &[(COUNT, "0")]).await;
    fail_sends(&bench, Fault::After);
    assert_eq!(lose(&bench, &path, &hi(), &[(COUNT, "0")]).await, 503);
    fail_sends(&bench, Fault::None);
    let both = messages(&bench, &session).await;
    assert_eq!(both.len(), 2);
    let reply = read(&bench, &path, &hi(), &[(COUNT, "1")]).await;
    assert_eq!(reply.headers["idempotent-replayed"], "true");
    assert_eq!(id(&reply.ok()["data"][0]), both[1]);
    let other = json!({ "events": [message("keyed")] });
    fail_sends(&bench, Fault::After);
    // By its key it is found at once, whoever wrote its receipt.
    assert_eq!(lose(&bench, &path, &other, &[(KEY, "k")]).await, 200);
    fail_sends(&bench, Fault::None);
    read(&bench, &path, &other, &[(KEY, "k")]).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 3);
}

#[tokio::test]
async fn a_failure_that_left_nothing_is_made_good_by_its_retry() {
    let (bench, session, path) = start().await;
    lose(&bench, &path, &hi(), &[(COUNT, "0")]).await;
    fail_sends(&bench, Fault::Before);
    for count in ["0", "1"] {
        assert_eq!(lose(&bench, &path, &hi(), &[(COUNT, count)]).await, 503);
    }
    fail_sends(&bench, Fault::None);
    let reply = read(&bench, &path, &hi(), &[(COUNT, "2")]).await;
    assert!(!reply.headers.contains_key("idempotent-replayed"));
    assert_eq!(messages(&bench, &session).await.len(), 2);
}

#[tokio::test]
async fn only_the_same_request_is_a_repeat() {
    let (bench, session, path) = start().await;
    bench
        .kernel
        .admit_key("another key", "other")
        .await
        .unwrap();
    let (_, other, elsewhere) = {
        let other = bench.session().await;
        let path = format!("/v1/sessions/{other}/events");
        ((), other, path)
    };
    lose(&bench, &path, &hi(), &[(COUNT, "0")]).await;
    read(&bench, &elsewhere, &hi(), &[(COUNT, "1")]).await.ok();
    assert_eq!(messages(&bench, &other).await.len(), 1);
    read(
        &bench,
        &path,
        &json!({ "events": [message("ho")] }),
        &[(COUNT, "1")],
    )
    .await
    .ok();
    assert_eq!(messages(&bench, &session).await.len(), 2);
    let spaced = hi().to_string() + " ";
    bench
        .ask(request(Method::POST, &path, &[(COUNT, "1")], &spaced))
        .await
        .ok();
    assert_eq!(messages(&bench, &session).await.len(), 3);
    let mut foreign = request(Method::POST, &path, &[(COUNT, "1")], &hi().to_string());
    foreign
        .headers_mut()
        .insert("authorization", "Bearer another key".parse().unwrap());
    bench.ask(foreign).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 4);
    // Without a count nothing is a repeat of anything.
    read(&bench, &path, &hi(), &[]).await.ok();
    read(&bench, &path, &hi(), &[(COUNT, "many")]).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 6);
    // What was lost at first is still found.
    read(&bench, &path, &hi(), &[(COUNT, "1")]).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 6);
}

#[tokio::test]
async fn a_retry_is_one_of_another_count_and_of_ten_minutes() {
    let (bench, session, path) = start().await;
    lose(&bench, &path, &hi(), &[(COUNT, "2")]).await;
    lose(&bench, &path, &hi(), &[(COUNT, "2")]).await;
    assert_eq!(messages(&bench, &session).await.len(), 2);
    lose(&bench, &path, &hi(), &[(COUNT, "1")]).await;
    assert_eq!(messages(&bench, &session).await.len(), 2, "held up");
    bench.clock.advance(Duration::from_secs(599));
    lose(&bench, &path, &hi(), &[(COUNT, "3")]).await;
    assert_eq!(messages(&bench, &session).await.len(), 2);
    bench.clock.advance(Duration::from_secs(2));
    lose(&bench, &path, &hi(), &[(COUNT, "4")]).await;
    assert_eq!(messages(&bench, &session).await.len(), 3);
}

#[tokio::test]
async fn an_original_that_was_held_up_gets_the_answer_of_its_repeat() {
    let (bench, session, path) = start().await;
    for count in ["1", "0", "3", "2"] {
        assert_eq!(lose(&bench, &path, &hi(), &[(COUNT, count)]).await, 200);
        assert_eq!(messages(&bench, &session).await.len(), 1, "{count}");
    }
    // So late it is a wish of its own.
    bench.clock.advance(Duration::from_secs(11));
    lose(&bench, &path, &hi(), &[(COUNT, "0")]).await;
    assert_eq!(messages(&bench, &session).await.len(), 2);
    // As is one whose repeat was answered for certain.
    read(&bench, &path, &hi(), &[(COUNT, "4")]).await.ok();
    lose(&bench, &path, &hi(), &[(COUNT, "0")]).await;
    assert_eq!(messages(&bench, &session).await.len(), 3);
}

#[tokio::test]
async fn an_original_waits_for_its_repeat_at_work() {
    let (bench, session, path) = start().await;
    fail_sends(&bench, Fault::Late(Duration::from_millis(200)));
    let (one, zero) = ([(COUNT, "1")], [(COUNT, "0")]);
    let body = hi();
    let both = (
        read(&bench, &path, &body, &one),
        read(&bench, &path, &body, &zero),
    );
    let (first, second) = futures::join!(both.0, both.1);
    assert_eq!(id(&first.ok()["data"][0]), id(&second.ok()["data"][0]));
    assert_eq!(messages(&bench, &session).await.len(), 1);
}

#[tokio::test]
async fn a_key_answers_for_a_day_whatever_was_read() {
    let (bench, session, path) = start().await;
    let first = read(&bench, &path, &hi(), &[(KEY, "one")]).await;
    for headers in [[(KEY, "one"), (COUNT, "0")], [(KEY, "one"), (COUNT, "3")]] {
        assert_eq!(read(&bench, &path, &hi(), &headers).await.text, first.text);
    }
    bench.clock.advance(Duration::from_secs(23 * 3_600));
    assert_eq!(
        read(&bench, &path, &hi(), &[(KEY, "one")]).await.text,
        first.text
    );
    assert_eq!(messages(&bench, &session).await.len(), 1);
    let reply = read(
        &bench,
        &path,
        &json!({ "events": [message("ho")] }),
        &[(KEY, "one")],
    )
    .await;
    insta::assert_json_snapshot!("key_of_another_request", reply.shown());
    let other = bench
        .post("/v1/environments", json!({ "name": "x" }))
        .await
        .ok();
    read(&bench, "/v1/environments", &hi(), &[(KEY, "one")])
        .await
        .refused(400);
    drop(other);
    read(&bench, &path, &hi(), &[(KEY, "two")]).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 2);
    bench.clock.advance(Duration::from_secs(2 * 3_600));
    read(&bench, &path, &hi(), &[(KEY, "one")]).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 3);
    for bad in ["", &"k".repeat(256)] {
        let words = read(&bench, &path, &hi(), &[(KEY, bad)]).await.refused(400);
        assert!(
            words.starts_with("Idempotency-Key: must have 1 to 255"),
            "{words}"
        );
    }
}

#[tokio::test]
async fn a_refusal_leaves_a_key_free() {
    let (bench, session, path) = start().await;
    read(&bench, &path, &json!({ "events": [] }), &[(KEY, "one")])
        .await
        .refused(400);
    read(&bench, &path, &hi(), &[(KEY, "one")]).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 1);
}

#[tokio::test]
async fn keys_of_two_clients_are_apart() {
    let (bench, session, path) = start().await;
    bench
        .kernel
        .admit_key("another key", "other")
        .await
        .unwrap();
    read(&bench, &path, &hi(), &[(KEY, "one")]).await.ok();
    let mut foreign = request(Method::POST, &path, &[(KEY, "one")], &hi().to_string());
    foreign
        .headers_mut()
        .insert("authorization", "Bearer another key".parse().unwrap());
    bench.ask(foreign).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 2);
}

#[tokio::test]
async fn creates_and_updates_of_everything_are_done_once() {
    let bench = Bench::new().await;
    let (agent, environment) = bench.home().await;
    let session = json!({
        "agent": agent, "environment_id": environment, "initial_events": [message("hi")],
    });
    for (path, list, body) in [
        (
            "/v1/agents".to_owned(),
            "/v1/agents",
            json!({ "name": "a", "model": "full" }),
        ),
        (
            "/v1/environments".to_owned(),
            "/v1/environments",
            json!({ "name": "a" }),
        ),
        ("/v1/sessions".to_owned(), "/v1/sessions", session),
    ] {
        let count = async || bench.get(list).await.ok()["data"].as_array().unwrap().len();
        let before = count().await;
        for headers in [[(COUNT, "0")], [(KEY, list)]] {
            let lost = bench
                .raw(request(Method::POST, &path, &headers, &body.to_string()))
                .await;
            assert_eq!(lost.status(), 200);
            let headers = if headers[0].0 == COUNT {
                [(COUNT, "1")]
            } else {
                headers
            };
            let again = read(&bench, &path, &body, &headers).await;
            let lost = whole(lost).await;
            assert_eq!(again.text, lost.text, "{path}");
        }
        assert_eq!(count().await, before + 2, "{path}");
    }
    // A retried update is not told that the version is another one by now: its own.
    let path = format!("/v1/agents/{agent}");
    let update = json!({ "version": 1, "name": "aide" });
    lose(&bench, &path, &update, &[(COUNT, "0")]).await;
    let again = read(&bench, &path, &update, &[(COUNT, "1")]).await.ok();
    assert_eq!(
        (&again["version"], &again["name"]),
        (&json!(2), &json!("aide"))
    );
    read(&bench, &path, &update, &[(COUNT, "2")])
        .await
        .refused(409);
}

#[tokio::test]
async fn receipts_outlive_the_process() {
    let (bench, session, path) = start().await;
    lose(&bench, &path, &hi(), &[(COUNT, "0")]).await;
    let first = messages(&bench, &session).await;
    let bench = Bench::over(
        Setup {
            seed: 2,
            ..Default::default()
        },
        bench.store,
        bench.clock,
    )
    .await;
    let reply = read(&bench, &path, &hi(), &[(COUNT, "1")]).await;
    assert_eq!(id(&reply.ok()["data"][0]), first[0]);
    // That it was read outlives the process too, once it was written.
    bench.shutdown.cancel();
    bench.tasks.close();
    bench.tasks.wait().await;
    let bench = Bench::over(
        Setup {
            seed: 3,
            ..Default::default()
        },
        bench.store,
        bench.clock,
    )
    .await;
    read(&bench, &path, &hi(), &[(COUNT, "2")]).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 2);
}

/// Lets sends wait until the returned sender says go.
fn hold(bench: &Bench, then: Fault) -> mpsc::Sender<()> {
    let (go, gate) = mpsc::channel();
    bench.store.hook(move |_, _, append| match append.proposal {
        Proposal::Send(_) => {
            gate.recv().unwrap();
            then
        }
        _ => Fault::None,
    });
    go
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_retry_waits_for_its_original_at_work() {
    let (bench, session, path) = start().await;
    let bench = Arc::new(bench);
    for (headers, retry) in [
        ([(COUNT, "0")], [(COUNT, "1")]),
        ([(KEY, "k")], [(KEY, "k")]),
    ] {
        let before = messages(&bench, &session).await.len();
        let go = hold(&bench, Fault::None);
        let appends = bench.store.appends();
        // The client of the original goes away as soon as its request is at work.
        let first = {
            let (bench, path) = (bench.clone(), path.clone());
            tokio::spawn(async move { lose(&bench, &path, &hi(), &headers).await })
        };
        while bench.store.appends() == appends {
            tokio::task::yield_now().await;
        }
        first.abort();
        let retries: Vec<_> = (0..3)
            .map(|_| {
                let (bench, path) = (bench.clone(), path.clone());
                tokio::spawn(async move { read(&bench, &path, &hi(), &retry).await.text })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(retries.iter().all(|retry| !retry.is_finished()));
        go.send(()).unwrap();
        let mut texts = Vec::new();
        for retry in retries {
            texts.push(retry.await.unwrap());
        }
        assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
        bench.store.hook(|_, _, _| Fault::None);
        assert_eq!(messages(&bench, &session).await.len(), before + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_retry_whose_original_fails_does_the_work() {
    let (bench, session, path) = start().await;
    let bench = Arc::new(bench);
    let go = hold(&bench, Fault::Before);
    let appends = bench.store.appends();
    let send = |headers: [(&'static str, &'static str); 1]| {
        let (bench, path) = (bench.clone(), path.clone());
        tokio::spawn(async move { read(&bench, &path, &hi(), &headers).await.status.as_u16() })
    };
    let first = send([(COUNT, "0")]);
    while bench.store.appends() == appends {
        tokio::task::yield_now().await;
    }
    let retry = send([(COUNT, "1")]);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!retry.is_finished());
    go.send(()).unwrap();
    assert_eq!(first.await.unwrap(), 503);
    while bench.store.appends() == appends + 1 {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    assert_eq!(retry.await.unwrap(), 503);
    bench.store.hook(|_, _, _| Fault::None);
    read(&bench, &path, &hi(), &[(COUNT, "2")]).await.ok();
    assert_eq!(messages(&bench, &session).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_under_one_key_are_one() {
    let (bench, session, path) = start().await;
    let bench = Arc::new(bench);
    let sends: Vec<_> = (0..32)
        .map(|_| {
            let (bench, path) = (bench.clone(), path.clone());
            tokio::spawn(async move { read(&bench, &path, &hi(), &[(KEY, "k")]).await.text })
        })
        .collect();
    let mut texts = Vec::new();
    for send in sends {
        texts.push(send.await.unwrap());
    }
    assert!(texts.iter().all(|text| *text == texts[0]));
    assert_eq!(messages(&bench, &session).await.len(), 1);
}

/// Sends over a connection that the server knows.
async fn over(bench: &Bench, path: &str, connection: &Connection, count: &str) -> Response {
    let mut request = request(Method::POST, path, &[(COUNT, count)], &hi().to_string());
    request.extensions_mut().insert(connection.clone());
    bench.raw(request).await
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_as_read_once_its_connection_outlived_it() {
    let (bench, session, path) = start().await;
    let (connection, guard) = Connection::open();
    whole(over(&bench, &path, &connection, "0").await)
        .await
        .ok();
    // It broke right behind the answer: nobody can say that the client has it.
    drop(guard);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (connection, _guard) = Connection::open();
    let again = whole(over(&bench, &path, &connection, "1").await).await;
    assert_eq!(again.headers["idempotent-replayed"], "true");
    tokio::time::sleep(Duration::from_secs(5)).await;
    whole(over(&bench, &path, &connection, "2").await)
        .await
        .ok();
    assert_eq!(messages(&bench, &session).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_mark_of_an_answer_does_not_meet_the_next_one() {
    let (bench, session, path) = start().await;
    let (connection, _guard) = Connection::open();
    whole(over(&bench, &path, &connection, "0").await)
        .await
        .ok();
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(over(&bench, &path, &connection, "0").await);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let both = messages(&bench, &session).await;
    let again = whole(over(&bench, &path, &connection, "1").await)
        .await
        .ok();
    assert_eq!((both.len(), id(&again["data"][0])), (2, both[1].clone()));
    assert_eq!(messages(&bench, &session).await, both);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_forward_makes_no_receipt_old() {
    let (bench, session, path) = start().await;
    let keyed = json!({ "events": [message("keyed")] });
    assert_eq!(lose(&bench, &path, &hi(), &[(COUNT, "0")]).await, 200);
    assert_eq!(lose(&bench, &path, &keyed, &[(KEY, "k")]).await, 200);
    let both = messages(&bench, &session).await;
    let replayed = async |body: &Value, headers: &[(&str, &str)]| {
        let response = bench
            .raw(request(Method::POST, &path, headers, &body.to_string()))
            .await;
        // The answer is lost again.
        response.headers().contains_key("idempotent-replayed")
    };
    for days in [0, 1, 3] {
        bench.clock.jump(Duration::from_secs(days * 86_400 + 900));
        // What is old goes meanwhile.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(replayed(&hi(), &[(COUNT, "1")]).await, "{days}");
        assert!(replayed(&keyed, &[(KEY, "k")]).await, "{days}");
    }
    assert_eq!(messages(&bench, &session).await, both);
    // Time that passes counts, whatever the clock showed.
    bench.clock.advance(Duration::from_secs(601));
    assert!(!replayed(&hi(), &[(COUNT, "1")]).await);
    assert!(replayed(&keyed, &[(KEY, "k")]).await);
    bench.clock.advance(Duration::from_secs(86_400));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!replayed(&keyed, &[(KEY, "k")]).await);
    assert_eq!(messages(&bench, &session).await.len(), 4);
}
