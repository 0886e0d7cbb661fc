//! Events: sent and listed.

use serde_json::{Value, json};

use crate::{
    bench::{Bench, id, message},
    brain::Brain,
    redact::redact,
};

#[tokio::test]
async fn a_send_is_answered_with_what_was_accepted() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let path = format!("/v1/sessions/{session}/events");
    let system =
        json!({ "type": "system.message", "content": [{ "type": "text", "text": "be brief" }] });
    let sent = bench
        .post(
            &path,
            json!({ "events": [message("one"), message("two"), system] }),
        )
        .await;
    insta::assert_json_snapshot!("sent", sent.shown());
    let listed = bench.get(&path).await;
    insta::assert_json_snapshot!("waiting", listed.shown());
    assert_eq!(sent.json()["data"], listed.json()["data"]);
    Brain::new(bench.lease().await).answer("fine").await;
    insta::assert_json_snapshot!("a_turn", bench.get(&path).await.shown());
}

#[tokio::test]
async fn calls_wait_for_confirmations_and_results() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let path = format!("/v1/sessions/{session}/events");
    bench.say(&session, "go").await;
    let brain = Brain::new(bench.lease().await);
    let calls = brain
        .call(&[
            ("bash", "{\"command\":\"ls\"}"),
            ("weather", "{\"city\":\"Bonn\"}"),
        ])
        .await;
    brain.end().await;
    let refused = bench
        .post(&path, json!({ "events": [message("hi")] }))
        .await;
    insta::assert_json_snapshot!("message_while_action_is_required", refused.shown());
    let confirm = |call: Value, more: Value| {
        let mut event =
            json!({ "type": "user.tool_confirmation", "tool_use_id": call, "result": "deny" });
        event
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        event
    };
    let result = json!({
        "type": "user.custom_tool_result",
        "custom_tool_use_id": calls[1],
        "content": [{ "type": "text", "text": "rain" }],
    });
    for wrong in [
        confirm(json!(calls[1]), json!({})),
        confirm(json!("sevt_nothing"), json!({})),
        json!({ "type": "user.custom_tool_result", "custom_tool_use_id": calls[0] }),
        confirm(
            json!(calls[0]),
            json!({ "result": "allow", "deny_message": "no" }),
        ),
    ] {
        // The good one before it is not taken either: all or none.
        let reply = bench
            .post(&path, json!({ "events": [result, wrong] }))
            .await;
        reply.refused(400);
    }
    let denied = confirm(json!(calls[0]), json!({ "deny_message": "not now" }));
    let sent = bench.post(&path, json!({ "events": [denied] })).await;
    insta::assert_json_snapshot!("denied", sent.shown());
    let sent = bench.post(&path, json!({ "events": [result] })).await;
    insta::assert_json_snapshot!("result", sent.shown());
    let again = bench.post(&path, json!({ "events": [result] })).await;
    insta::assert_json_snapshot!("result_again", again.shown());
    insta::assert_json_snapshot!("calls", redact(&json!(bench.log(&session).await)));
}

#[tokio::test]
async fn an_interrupt_answers_with_itself_alone() {
    // One brain at most: what the second session says waits without a lease.
    let bench = Bench::with(crate::bench::Setup {
        brains: 1,
        ..Default::default()
    })
    .await;
    let (busy, session) = (bench.session().await, bench.session().await);
    bench.say(&busy, "work").await;
    let brain = Brain::new(bench.lease().await);
    let waiting = bench.say(&session, "wait").await;
    let path = format!("/v1/sessions/{session}/events");
    let sent = bench
        .post(&path, json!({ "events": [{ "type": "user.interrupt" }] }))
        .await
        .ok();
    let data = sent["data"].as_array().unwrap();
    assert_eq!(data.len(), 1, "{data:?}");
    assert_eq!(data[0]["type"], "user.interrupt");
    assert_ne!(id(&data[0]), waiting);
    drop(brain);
}

#[tokio::test]
async fn wrong_events_are_named() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let path = format!("/v1/sessions/{session}/events");
    let mut told = Vec::new();
    for body in [
        json!({}),
        json!({ "events": [] }),
        json!({ "events": message("x") }),
        json!({ "events": [message("x"), { "type": "agent.message", "content": [] }] }),
        json!({ "events": [{ "type": "user.message" }] }),
        json!({ "events": [{ "type": "user.message", "content": [{ "type": "redacted" }] }] }),
        json!({ "events": [{ "type": "user.message", "content": [], "extra": 1 }] }),
        json!({ "events": [{ "type": "system.message", "content": [{ "type": "text", "text": "x" }] }] }),
        json!({ "events": [{ "type": "user.tool_result", "tool_use_id": "x" }] }),
        json!({ "events": [{ "type": "user.define_outcome", "description": "x" }] }),
        json!({ "events": [{ "type": "user.interrupt", "session_thread_id": "sthr_x" }] }),
        json!({ "events": [message("x")], "more": true }),
    ] {
        let reply = bench.post(&path, body).await;
        assert_eq!(reply.status, 400);
        told.push(redact(&reply.json()["error"]));
    }
    insta::assert_json_snapshot!("wrong_events", told);
    assert!(bench.log(&session).await.is_empty());
}

#[tokio::test]
async fn a_model_without_system_turns_takes_no_system_message() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    // The store in memory says yes to every model; what it says no to is told in its own tests.
    let body = json!({ "events": [message("x"),
        { "type": "system.message", "content": [{ "type": "text", "text": "y" }] }] });
    bench
        .post(&format!("/v1/sessions/{session}/events"), body)
        .await
        .ok();
}

#[tokio::test]
async fn lists_filter_by_type_and_time_in_both_orders() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let path = format!("/v1/sessions/{session}/events");
    bench.say(&session, "one").await;
    Brain::new(bench.lease().await).answer("1").await;
    bench.say(&session, "two").await;
    let brain = Brain::new(bench.lease().await);
    brain.answer("2").await;
    bench.say(&session, "three").await;
    let all = bench.log(&session).await;
    let ids = |events: &[Value]| events.iter().map(id).collect::<Vec<_>>();
    let list = async |query: &str| {
        let listed = bench.get(&format!("{path}?{query}")).await.ok();
        ids(listed["data"].as_array().unwrap())
    };
    let only = |wanted: &dyn Fn(&Value) -> bool| {
        ids(&all
            .iter()
            .filter(|event| wanted(event))
            .cloned()
            .collect::<Vec<_>>())
    };
    let mut backwards = ids(&all);
    backwards.reverse();
    assert_eq!(list("order=desc").await, backwards);
    assert_eq!(list("order=asc&limit=1000").await, ids(&all));
    let kinds = ["user.message", "agent.message"];
    let typed = only(&|event| kinds.contains(&event["type"].as_str().unwrap()));
    assert_eq!(typed.len(), 5);
    assert_eq!(
        list("types[]=user.message&types[]=agent.message").await,
        typed
    );
    assert_eq!(list("types=agent.mcp_tool_use").await, Vec::<String>::new());
    assert_eq!(
        list("types[]=agent.mcp_tool_use&types[]=session.usage")
            .await
            .len(),
        2
    );
    let at = all[7]["processed_at"].as_str().unwrap();
    for (word, wanted) in [
        ("gt", &(|time: &str| time > at) as &dyn Fn(&str) -> bool),
        ("gte", &|time: &str| time >= at),
        ("lt", &|time: &str| time < at),
        ("lte", &|time: &str| time <= at),
    ] {
        let expected = only(&|event| event["processed_at"].as_str().is_some_and(wanted));
        assert_eq!(
            list(&format!("created_at[{word}]={at}")).await,
            expected,
            "{word}"
        );
        let mut reversed = expected;
        reversed.reverse();
        assert_eq!(
            list(&format!("order=desc&created_at[{word}]={at}")).await,
            reversed,
            "{word}"
        );
    }
    for (query, words) in [
        ("types[]=nothing", "types: must be"),
        ("order=x", "order: must be"),
        ("limit=1001", "limit: must be an integer from 1 to 1000"),
        ("created_at[gt]=x", "created_at[gt]:"),
        (
            "created_at=2026-01-01T00:00:00Z",
            "created_at: unknown query parameter",
        ),
    ] {
        let told = bench.get(&format!("{path}?{query}")).await.refused(400);
        assert!(told.starts_with(words), "{query}: {told}");
    }
}
