//! What operators are told, and that none of it is a word of users.

use std::time::Duration;

use outlast_session::Then;
use outlast_testkit::faulty::Fault;
use serde_json::{Value, json};

use crate::{
    bench::{Bench, Setup, id},
    brain::Brain,
};

/// Stands in every place where a user can write something.
const CANARY: &str = "canary-5e1f";

async fn diagnosis(bench: &Bench, session: &str) -> Value {
    let path = format!("/outlast/v1/sessions/{session}/diagnosis");
    let reply = bench.get(&path).await;
    assert!(!reply.text.contains(CANARY), "{}", reply.text);
    reply.ok()
}

fn waits(diagnosis: &Value) -> &str {
    diagnosis["threads"][0]["waits_for"]["type"]
        .as_str()
        .unwrap()
}

fn parts(diagnosis: &Value) -> Vec<(&str, &str)> {
    let troubles = diagnosis["troubles"].as_array().unwrap();
    troubles
        .iter()
        .map(|trouble| {
            (
                trouble["part"].as_str().unwrap(),
                trouble["kind"].as_str().unwrap(),
            )
        })
        .collect()
}

/// Makes a session in which users wrote the canary wherever they can.
async fn marked(bench: &Bench) -> String {
    let tool = json!({"type": "custom", "name": CANARY, "description": CANARY,
        "input_schema": {"type": "object"}});
    let agent = json!({"name": CANARY, "model": "full", "system": CANARY,
        "tools": [{"type": "agent_toolset_20260401"}, tool], "metadata": {"a": CANARY}});
    let agent = bench.post("/v1/agents", agent).await.ok();
    let environment = bench
        .post("/v1/environments", json!({"name": CANARY}))
        .await;
    let body = json!({"agent": id(&agent), "environment_id": id(&environment.ok()),
        "title": CANARY, "metadata": {"b": CANARY}});
    id(&bench.post("/v1/sessions", body).await.ok())
}

#[tokio::test]
async fn every_waker_is_told() {
    let bench = Bench::with(Setup {
        brains: 1,
        ..Setup::default()
    })
    .await;
    let (one, two) = (marked(&bench).await, marked(&bench).await);
    assert_eq!(waits(&diagnosis(&bench, &one).await), "input");

    bench.say(&one, CANARY).await;
    bench.say(&two, CANARY).await;
    let brain = Brain::new(bench.lease().await);
    let held = diagnosis(&bench, &one).await;
    assert_eq!(waits(&held), "brain");
    assert_eq!(held["threads"][0]["waits_for"]["holder"], "here");
    assert_eq!(held["threads"][0]["queued"], 1);
    assert!(held["threads"][0]["since"].is_string(), "{held}");
    let waiting = diagnosis(&bench, &two).await;
    assert_eq!(waits(&waiting), "any_brain");
    let verdict = waiting["verdict"].as_str().unwrap();
    assert!(verdict.contains("all of this process's"), "{verdict}");

    let call = format!("{{\"command\":\"echo {CANARY}\"}}");
    let custom = format!("{{\"x\":\"{CANARY}\"}}");
    brain.call(&[("bash", &call), (CANARY, &custom)]).await;
    let calls = diagnosis(&bench, &one).await["threads"][0]["calls"].clone();
    assert_eq!(
        (&calls[0]["state"], &calls[0]["route"]),
        (&json!("allowed"), &json!("hand"))
    );
    assert_eq!(
        (&calls[1]["state"], &calls[1]["route"]),
        (&json!("asked"), &json!("client"))
    );
    let busy = bench.get("/outlast/v1/diagnosis").await;
    assert!(!busy.text.contains(CANARY));
    let busy = busy.ok();
    assert_eq!((&busy["brains"], &busy["busy"]), (&json!(1), &json!(1)));
    assert_eq!(busy["waiting"], json!({"any_brain": 1, "brain": 1}));

    let outline = bench
        .get(&format!("/outlast/v1/sessions/{one}/outline"))
        .await;
    assert!(!outline.text.contains(CANARY), "{}", outline.text);
    let outline = outline.ok();
    let newest = &outline["records"][0];
    assert!(newest["bytes"].as_u64().unwrap() > 0, "{newest}");
    let limited = format!("/outlast/v1/sessions/{one}/outline?limit=2");
    let limited = bench.get(&limited).await.ok();
    assert_eq!(limited["records"].as_array().unwrap().len(), 2);
    assert_eq!(limited["records"][0], *newest);
}

#[tokio::test]
async fn a_retry_and_its_cause_are_told() {
    let bench = Bench::new().await;
    let session = marked(&bench).await;
    bench.say(&session, CANARY).await;
    let brain = Brain::new(bench.lease().await);
    brain.take_in().await;
    let at = bench.kernel.now().after(Duration::from_secs(3_600));
    brain.fail(Then::Retry(at)).await;
    let found = diagnosis(&bench, &session).await;
    assert_eq!(waits(&found), "timer");
    assert_eq!(found["threads"][0]["waits_for"]["at"], json!(at));
    assert_eq!(found["threads"][0]["retries"], 1);
    assert_eq!(parts(&found), [("model", "model_overloaded_error")]);
    assert_eq!(found["stuck"], false);

    // A moment that has not come is not brought on by a wish.
    let wake = format!("/outlast/v1/sessions/{session}/wake");
    let woken = bench.poke(&wake).await.ok();
    assert_eq!(woken["threads"][0]["woken"], false, "{woken}");
    assert_eq!(woken["threads"][0]["waits_for"]["type"], "timer");
}

#[tokio::test]
async fn an_outstanding_answer_and_a_failing_store_are_told() {
    let bench = Bench::new().await;
    let session = marked(&bench).await;
    bench.say(&session, CANARY).await;
    let brain = Brain::new(bench.lease().await);
    let calls = brain.call(&[(CANARY, "{}")]).await;
    brain.end().await;
    let found = diagnosis(&bench, &session).await;
    assert_eq!(waits(&found), "answers");
    let ids = &found["threads"][0]["waits_for"]["event_ids"];
    assert_eq!(*ids, json!(calls));
    assert_eq!(parts(&found), [("client", "answer_outstanding")]);
    let verdict = found["verdict"].as_str().unwrap();
    assert!(verdict.contains(&calls[0].to_string()), "{verdict}");

    bench.store.fail_at(1, Fault::Before);
    let result = json!({"type": "user.custom_tool_result", "custom_tool_use_id": calls[0],
        "content": [{"type": "text", "text": CANARY}]});
    let path = format!("/v1/sessions/{session}/events");
    bench
        .post(&path, json!({"events": [result]}))
        .await
        .refused(503);
    let found = diagnosis(&bench, &session).await;
    assert_eq!(
        parts(&found),
        [("log", "unavailable"), ("client", "answer_outstanding")]
    );
    let server = bench.get("/outlast/v1/diagnosis").await.ok();
    assert!(server["store_failed_at"].is_string(), "{server}");
}

#[tokio::test]
async fn a_wish_to_wake_takes_over_from_the_dead() {
    let (store, clock) = {
        let bench = Bench::new().await;
        let session = bench.session().await;
        bench.say(&session, "work").await;
        let lease = bench.lease().await;
        // A process that is gone never gives its lease back.
        std::mem::forget(lease);
        (bench.store.clone(), bench.clock.clone())
    };
    let bench = Bench::over(Setup::default(), store, clock).await;
    let listed = bench.get("/outlast/v1/diagnosis").await.ok();
    let session = listed["sessions"][0]["session_id"].as_str().unwrap();
    let wake = format!("/outlast/v1/sessions/{session}/wake");
    bench.poke(&wake).await.ok();
    // By the wish or by itself, but once: the next wish finds a brain at work.
    let lease = bench.lease().await;
    let woken = bench.poke(&wake).await.ok();
    assert_eq!(woken["threads"][0]["woken"], false, "{woken}");
    assert_eq!(woken["threads"][0]["waits_for"]["holder"], "here");
    drop(lease);
}

#[tokio::test]
async fn what_is_not_there_is_unknown() {
    let bench = Bench::new().await;
    for end in ["diagnosis", "outline"] {
        bench
            .get(&format!("/outlast/v1/sessions/sesn_01nothing/{end}"))
            .await
            .refused(404);
    }
    bench
        .poke("/outlast/v1/sessions/sesn_01nothing/wake")
        .await
        .refused(404);
    let session = bench.session().await;
    let path = format!("/outlast/v1/sessions/{session}/outline?limit=0");
    bench.get(&path).await.refused(400);
    let path = format!("/outlast/v1/sessions/{session}/diagnosis?verbose=true");
    bench.get(&path).await.refused(400);
}
