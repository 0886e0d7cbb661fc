use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Binary, Does as _, bash, leftovers, message, of, said, script, until};

/// Sends events, waits until `when` holds, sends more, kills the server at once, and starts another
/// on its data; returns the events once a turn has ended.
async fn killed_when(
    dir: &Path,
    events: &[Value],
    when: impl Fn(&[Value]) -> bool,
    more: &[Value],
) -> Vec<Value> {
    let first = Binary::start(dir, None).await;
    let key = std::fs::read_to_string(dir.join("local.key")).unwrap();
    let session = first.client.session("scripted").await;
    let mut accepted = first.client.send(&session, events).await;
    let before = until("the moment to kill", async || {
        let events = first.client.events(&session).await;
        when(&events).then_some(events)
    })
    .await;
    if !more.is_empty() {
        accepted.extend(first.client.send(&session, more).await);
    }
    first.kill().await;
    let second = Binary::start(dir, Some(key.trim())).await;
    let after = second.client.idle(&session, 1).await;
    assert!(second.stop().await.success());
    let has = |id: &Value| after.iter().any(|event| event["id"] == *id);
    for event in accepted.iter().chain(&before) {
        assert!(has(&event["id"]), "{event} is lost");
    }
    let mut ids: Vec<_> = after.iter().map(|event| event["id"].to_string()).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count, "an event is there twice");
    after
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_on_while_its_server_is_dead() {
    let dir = tempfile::tempdir().unwrap();
    let steps = json!([
        bash("x=same; echo x >> /workspace/count; sleep 2; echo done; cat /workspace/count"),
        bash("echo $x"),
        {"text": "{{results}}"},
    ]);
    // The command has begun, and its sandbox lives.
    let running = |_: &[Value]| leftovers::inside(dir.path(), "count").is_some();
    let events = killed_when(dir.path(), &[script(steps)], running, &[]).await;
    // The result is that of the one run, as if nothing had happened, and the shell is the same.
    let results = of(&events, "agent.tool_result");
    assert_eq!(results.len(), 2);
    assert_eq!(results[0]["is_error"], false, "{}", results[0]);
    assert_eq!(said(results[0]).trim(), "done\nx");
    let last = events.last().unwrap();
    assert_eq!(last["stop_reason"]["type"], "end_turn", "{last}");
    let text = said(of(&events, "agent.message")[0]);
    assert_eq!(text.trim(), "same");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_goes_on_after_kill_in_a_model_request_and_nothing_queued_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let steps = json!([{"content": [{"text": "first"}, {"pause_ms": 1500}, {"text": "last"}]}]);
    let asked = |events: &[Value]| !of(events, "span.model_request_start").is_empty();
    let more = [message("and then?")];
    let events = killed_when(dir.path(), &[script(steps)], asked, &more).await;
    assert_eq!(of(&events, "user.message").len(), 2);
    // The request that was cut off has an end, and was made again.
    let (starts, ends) = (
        of(&events, "span.model_request_start"),
        of(&events, "span.model_request_end"),
    );
    assert_eq!(starts.len(), ends.len());
    assert!(
        starts.len() >= 2 && ends.iter().any(|end| end["is_error"] == true),
        "{ends:?}"
    );
    let last = events.last().unwrap();
    assert_eq!(last["stop_reason"]["type"], "end_turn", "{last}");
    assert!(
        of(&events, "user.message")
            .iter()
            .all(|event| !event["processed_at"].is_null())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_asked_to_end_hands_its_turn_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let first = Binary::start(dir.path(), None).await;
    let key = std::fs::read_to_string(dir.path().join("local.key")).unwrap();
    let session = first.client.session("scripted").await;
    let steps = json!([{"pause_ms": 1500, "text": "late"}]);
    first.client.send(&session, &[script(steps)]).await;
    until("the request to begin", async || {
        let events = first.client.events(&session).await;
        (!of(&events, "span.model_request_start").is_empty()).then_some(())
    })
    .await;
    assert!(first.stop().await.success());
    assert!(!dir.path().join("local.url").exists());
    let second = Binary::start(dir.path(), Some(key.trim())).await;
    let events = second.client.idle(&session, 1).await;
    assert_eq!(said(of(&events, "agent.message")[0]), "late");
    assert!(second.stop().await.success());
}
