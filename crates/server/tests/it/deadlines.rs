//! Deadlines in the real binary: of the configuration, across a restart, told by the doctor.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Binary, Does as _, Output, bash, of, outlast, said, script, until};

/// Starts a server whose new sessions have these deadlines.
async fn start(dir: &Path, key: Option<&str>, answer: &str) -> Binary {
    let mut command = Binary::command(dir);
    command.env("OUTLAST__SESSIONS__ANSWER_SECONDS", answer);
    Binary::start_as(&mut command, dir, key).await
}

async fn limit(server: &Binary, session: &str, body: Value) -> Value {
    let path = format!("/outlast/v1/sessions/{session}/deadlines");
    server.client.put(&path, &body).await.unwrap()
}

async fn becomes(server: &Binary, session: &str, like: impl Fn(&Value) -> bool) {
    until("the deadline", async || {
        let path = format!("/v1/sessions/{session}");
        let found = server.client.get(&path, &[]).await.unwrap();
        like(&found).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_goes_on_without_the_answer_that_nobody_gave() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), None, "2").await;
    let tools = json!([{"type": "custom", "name": "ask", "description": "asks",
        "input_schema": {"type": "object"}}]);
    let session = server.client.session_with("scripted", tools).await;
    let steps = json!([{"calls": [{"name": "ask", "input": {}}]}, {"text": "{{results}}"}]);
    server.client.send(&session, &[script(steps)]).await;
    let events = server.client.idle(&session, 2).await;
    let told = said(of(&events, "agent.message")[0]);
    assert!(told.contains("within 2 seconds"), "{told}");
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_too_old_ends_with_what_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), None, "600").await;
    let session = server.client.session("scripted").await;
    let steps = json!([bash("touch /workspace/begun; sleep 600"), {"text": "never"}]);
    server.client.send(&session, &[script(steps)]).await;
    until("the call to run", async || {
        let found = Output::of(outlast(dir.path()).args(["doctor", &session])).await;
        found.out.contains("was handed to").then_some(())
    })
    .await;
    limit(&server, &session, json!({"total_seconds": 1})).await;
    becomes(&server, &session, |found| found["status"] == "terminated").await;
    let events = server.client.events(&session).await;
    let error = of(&events, "session.error")[0];
    assert_eq!(error["error"]["retry_status"]["type"], "terminal");
    let result = said(of(&events, "agent.tool_result")[0]).to_owned();
    assert!(result.contains("interrupted"), "{result}");
    // Nothing is left to wait for: it stops at once, and no turn is handed back.
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ran_out_while_no_server_was_there_is_kept_by_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let first = start(dir.path(), None, "600").await;
    let key = std::fs::read_to_string(dir.path().join("local.key")).unwrap();
    let session = first.client.session("scripted").await;
    let set = limit(&first, &session, json!({"idle_seconds": 3})).await;
    assert_eq!(set["answer_seconds"], 600, "from the configuration");
    let doctor = Output::of(outlast(dir.path()).args(["doctor", &session])).await;
    assert!(doctor.out.contains("deadline  idle"), "{doctor:?}");
    first.kill().await;
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    let second = start(dir.path(), Some(key.trim()), "600").await;
    becomes(&second, &session, |found| !found["archived_at"].is_null()).await;
    assert!(second.stop().await.success());
}
