use serde_json::json;

use crate::support::{Does as _, TestServer, bash, script};

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_finds_no_secret_anywhere() {
    let server = TestServer::start().await;
    let session = server.client().session(TestServer::UPSTREAM).await;
    let look = "env; for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do tr '\\0' '\\n' < $f; \
                done; cat /proc/self/mountinfo; ls -la / /workspace /tmp /root 2>&1";
    let steps = json!([bash(look), {"text": "{{results}}"}]);
    let events = server.play(&session, &[script(steps)], 1).await;
    assert!(
        events
            .iter()
            .any(|event| event["type"] == "agent.tool_result")
    );
    assert!(server.asked() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_quotes_the_key_does_not_show_it() {
    // The model's server asks for another key than the one that is sent.
    let server = TestServer::start_with(|config| {
        config.upstream.api_key = Some("sk-wrong-0123456789".into());
    })
    .await;
    let session = server.client().session(TestServer::UPSTREAM).await;
    let events = server
        .play(&session, &[crate::support::message("hello")], 1)
        .await;
    let text = serde_json::to_string(&events).unwrap();
    assert!(
        text.contains("session.error") && !text.contains("sk-wrong-0123456789"),
        "{text}"
    );
}

// The search itself: it must find what is there.

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "a secret stands in what clients saw")]
async fn a_secret_that_a_client_saw_is_found() {
    let server = TestServer::start().await;
    server.note(server.key());
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "a secret stands in the log")]
async fn a_secret_in_the_log_is_found() {
    let server = TestServer::start().await;
    tracing::info!("the key is {}", server.key());
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "outlast.db")]
async fn a_secret_in_a_record_is_found() {
    let server = TestServer::start().await;
    let session = server.client().session("scripted").await;
    let key = server.key().to_owned();
    server
        .client()
        .send(&session, &[crate::support::message(&key)])
        .await;
    server.client().idle(&session, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "tasks are left")]
async fn a_task_that_is_left_is_found() {
    let mut server = TestServer::start().await;
    server.hurry();
    #[expect(
        clippy::disallowed_methods,
        reason = "the test is about a task that nobody owns"
    )]
    drop(tokio::spawn(std::future::pending::<()>()));
    drop(server);
}
