//! Deadlines: shown, set, and kept across restarts and clocks that jump.

use std::time::Duration;

use http::Method;
use outlast_store::conformance::fixture::Dial as _;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    bench::{Bench, Reply, Setup, request},
    brain::Brain,
};

fn path(session: &str) -> String {
    format!("/outlast/v1/sessions/{session}/deadlines")
}

impl Bench {
    async fn limit(&self, session: &str, body: Value) -> Reply {
        let body = body.to_string();
        self.ask(request(Method::PUT, &path(session), &[], &body))
            .await
    }

    /// Waits until the session looks so.
    async fn becomes(&self, session: &str, like: impl Fn(&Value) -> bool) -> Value {
        let looking = async {
            loop {
                let found = self.get(&format!("/v1/sessions/{session}")).await.ok();
                if like(&found) {
                    return found;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        let found = timeout(Duration::from_secs(600), looking).await;
        found.expect("it does not become so")
    }

    /// Gives what should not happen time to happen.
    async fn settle(&self) {
        sleep(Duration::from_secs(60)).await;
    }
}

fn is_archived(session: &Value) -> bool {
    !session["archived_at"].is_null()
}

fn is_over(session: &Value) -> bool {
    session["status"] == "terminated"
}

/// A bench whose clock goes on by itself alone, so that its moments can be told.
async fn standing() -> Bench {
    Bench::with(Setup {
        step: Duration::ZERO,
        ..Setup::default()
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn what_holds_is_shown_and_changed_by_parts() {
    let bench = standing().await;
    let session = bench.session().await;
    let nothing = json!({"type": "session_deadlines", "session_id": session,
        "idle_seconds": null, "answer_seconds": null, "total_seconds": null, "next": null});
    assert_eq!(bench.get(&path(&session)).await.ok(), nothing);
    let change = json!({"idle_seconds": 60, "total_seconds": 3_600});
    let set = bench.limit(&session, change.clone()).await.ok();
    assert_eq!(
        (&set["idle_seconds"], &set["total_seconds"]),
        (&json!(60), &json!(3_600))
    );
    assert_eq!(set["next"]["deadline"], "idle");
    assert_eq!(
        bench.limit(&session, change).await.ok(),
        set,
        "safe to repeat"
    );
    let less = bench
        .limit(&session, json!({"idle_seconds": null}))
        .await
        .ok();
    assert_eq!(
        (&less["idle_seconds"], &less["next"]["deadline"]),
        (&Value::Null, &json!("total"))
    );
    let diagnosis = bench
        .get(&format!("/outlast/v1/sessions/{session}/diagnosis"))
        .await
        .ok();
    assert_eq!(diagnosis["next_deadline"], less["next"]);

    for (body, words) in [
        (
            json!({"idle_seconds": 0}),
            "idle_seconds: must be an integer from 1 to 31536000",
        ),
        (json!({"answer": 5}), "answer: unknown field"),
    ] {
        let refused = bench.limit(&session, body).await.refused(400);
        assert!(refused.starts_with(words), "{refused}");
    }
    bench
        .limit("sesn_010000000000000000000001", json!({}))
        .await
        .refused(404);
    bench
        .poke(&format!("/v1/sessions/{session}/archive"))
        .await
        .ok();
    let over = bench
        .limit(&session, json!({"idle_seconds": 5}))
        .await
        .refused(400);
    assert!(over.contains("archived"), "{over}");
    assert_eq!(bench.get(&path(&session)).await.ok()["next"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_is_archived_and_one_that_is_used_is_not() {
    let bench = standing().await;
    let (idle, used) = (bench.session().await, bench.session().await);
    for session in [&idle, &used] {
        bench.limit(session, json!({"idle_seconds": 60})).await.ok();
    }
    bench.clock.advance(Duration::from_secs(50));
    bench.say(&used, "hello").await;
    Brain::new(bench.lease().await).answer("hello").await;
    bench.clock.advance(Duration::from_secs(10));
    let archived = bench.becomes(&idle, is_archived).await;
    assert!(is_over(&archived));
    bench.settle().await;
    assert!(!is_archived(
        &bench.get(&format!("/v1/sessions/{used}")).await.ok()
    ));
    bench.clock.advance(Duration::from_secs(50));
    bench.becomes(&used, is_archived).await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_outlives_the_process_that_set_it() {
    let bench = standing().await;
    let session = bench.session().await;
    bench
        .limit(&session, json!({"idle_seconds": 60}))
        .await
        .ok();
    assert!(bench.kernel.close(Duration::from_secs(5)).await);
    bench.clock.advance(Duration::from_secs(3_600));
    let setup = Setup {
        seed: 2,
        step: Duration::ZERO,
        ..Setup::default()
    };
    let next = Bench::over(setup, bench.store.clone(), bench.clock.clone()).await;
    next.becomes(&session, is_archived).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_is_followed() {
    let bench = standing().await;
    let session = bench.session().await;
    let now = bench.kernel.now();
    bench
        .limit(&session, json!({"idle_seconds": 60}))
        .await
        .ok();
    // Back by an hour: nothing is due, and nothing is lost.
    bench
        .clock
        .set(outlast_protocol::Micros(now.0 - 3_600_000_000));
    bench.settle().await;
    assert!(!is_archived(
        &bench.get(&format!("/v1/sessions/{session}")).await.ok()
    ));
    // Forward by a day: it is due, whatever the runtime's clock says.
    bench.clock.set(now.after(Duration::from_secs(86_400)));
    bench.becomes(&session, is_archived).await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_nobody_answers_are_told_to_the_model() {
    let bench = standing().await;
    let session = bench.session().await;
    bench
        .limit(&session, json!({"answer_seconds": 30}))
        .await
        .ok();
    bench.say(&session, "ask").await;
    let brain = Brain::new(bench.lease().await);
    brain.call(&[("weather", "{}"), ("bash", "{}")]).await;
    brain.end().await;
    drop(brain);
    bench.clock.advance(Duration::from_secs(30));
    // The turn goes on: some brain is given the thread.
    let next = Brain::new(bench.lease().await);
    let events = bench.log(&session).await;
    let results: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "agent.tool_result")
        .collect();
    assert_eq!(results.len(), 2, "{events:?}");
    for result in results {
        let words = result["content"][0]["text"].as_str().unwrap();
        assert!(words.contains("within 30 seconds"), "{words}");
        assert_eq!(result["is_error"], true);
    }
    next.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_at_the_last_moment_counts_once() {
    let bench = standing().await;
    let session = bench.session().await;
    bench
        .limit(&session, json!({"answer_seconds": 30}))
        .await
        .ok();
    bench.say(&session, "ask").await;
    let brain = Brain::new(bench.lease().await);
    let calls = brain.call(&[("weather", "{}")]).await;
    brain.end().await;
    drop(brain);
    let answer = json!({"events": [{"type": "user.custom_tool_result",
        "custom_tool_use_id": calls[0], "content": [{"type": "text", "text": "sunny"}]}]});
    bench.clock.advance(Duration::from_secs(30));
    let sent = bench
        .post(&format!("/v1/sessions/{session}/events"), answer)
        .await;
    let _next = bench.lease().await;
    bench.settle().await;
    let events = bench.log(&session).await;
    let told = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    let (given, denied) = (told("user.custom_tool_result"), told("agent.tool_result"));
    assert_eq!(given + denied, 1, "{events:?}");
    assert_eq!(sent.status.is_success(), given == 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_too_old_is_ended_under_its_brain() {
    let bench = standing().await;
    let session = bench.session().await;
    bench
        .limit(&session, json!({"total_seconds": 100}))
        .await
        .ok();
    bench.say(&session, "work").await;
    let brain = Brain::new(bench.lease().await);
    brain.take_in().await;
    brain.begin().await;
    bench.clock.advance(Duration::from_secs(100));
    let ended = bench.becomes(&session, is_over).await;
    assert!(!is_archived(&ended));
    // The brain is told, without having to say anything.
    brain.lease.interrupted().await;
    assert!(brain.lease.held(&brain.lease.state()).is_none());
    let events = bench.log(&session).await;
    let error = events
        .iter()
        .find(|event| event["type"] == "session.error")
        .unwrap();
    assert_eq!(
        error["error"]["retry_status"]["type"], "terminal",
        "{error}"
    );
    let last = events.last().unwrap();
    assert_eq!(last["type"], "session.status_terminated");
}
