use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;

use crate::{
    files::upload,
    support::{Binary, Does as _, TestServer, bash, guard::Guard, message, script},
};

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
    let events = server.play(&session, &[message("hello")], 1).await;
    let text = serde_json::to_string(&events).unwrap();
    assert!(
        text.contains("session.error") && !text.contains("sk-wrong-0123456789"),
        "{text}"
    );
}

// The search itself: it must find what is there.

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "a secret stands in what clients saw: the key of clients as it is")]
async fn a_test_fails_where_a_secret_stands() {
    let server = TestServer::start().await;
    server.note(server.key());
}

/// Writes bytes in hex digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Says a text in two parts, of which the command that says it has neither in one piece.
fn parted(text: &str) -> String {
    let (one, other) = text.split_at(text.len() / 2);
    format!("one='{one}'; other='{other}'; ")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_found_in_every_place() {
    let server = TestServer::start().await;
    let client = server.client();
    let key = server.key().to_owned();
    let base64 = BASE64_STANDARD.encode(format!("x{key}"));
    let reversed: String = key.chars().rev().collect();
    // A record; the answer to what was sent says it too, and it is read again.
    let session = client.session("scripted").await;
    client.send(&session, &[message(&base64)]).await;
    client.idle(&session, 1).await;
    // A blob, and a file of the sandbox.
    let here = tempfile::tempdir().unwrap();
    upload(client, here.path(), "note", hex(key.as_bytes()).as_bytes()).await;
    let file = parted(&reversed) + "printf '%s%s' \"$one\" \"$other\" > note; sync note";
    client.ran(&session, &file, 2).await;
    // Environment and arguments of processes that live inside.
    let processes = parted(&key)
        + "env KEY=\"$one$other\" sleep 600 > /dev/null 2>&1 & \
           bash -c 'sleep 600; true' \"$one$other\" > /dev/null 2>&1 & sleep 0.5";
    client.ran(&session, &processes, 3).await;
    tracing::info!("the key is {}", hex(key.as_bytes()).to_uppercase());
    let figure = metrics::counter!("outlast_test_total", "key" => key.clone());
    figure.increment(1);

    let dir = server.dir().display().to_string();
    let wrong = server.end().await;
    let is_found = |place: &str, form: &str| {
        let found = wrong.iter().any(|line| {
            line.starts_with(&format!("a secret stands in {place}"))
                && line.ends_with(&format!(": the key of clients {form}"))
        });
        assert!(found, "{place} {form}: {wrong:#?}");
    };
    is_found(&format!("{dir}/outlast.db"), "in base64");
    is_found(&format!("{dir}/blobs/files/"), "in hex");
    is_found(&format!("{dir}/hands/"), "reversed");
    is_found("the environment of `sleep`", "as it is");
    is_found("the arguments of `bash`", "as it is");
    is_found("the log", "in hex");
    is_found("what clients saw", "in base64");
    // In figures, which a client reads.
    is_found("what clients saw", "as it is");
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "support.tar.gz: the model's key in hex")]
async fn a_secret_in_a_support_bundle_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let key = hex(Guard::over(dir.path()).model_key().as_bytes());
    let file = format!("[upstream]\nbetas = [\"{key}\"]\n");
    std::fs::write(dir.path().join("outlast.toml"), file).unwrap();
    let server = Binary::start(dir.path(), None).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "a secret stands in the arguments of `outlast`")]
async fn a_secret_in_the_arguments_of_a_server_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let key = hex(Guard::over(dir.path()).model_key().as_bytes());
    let file = elsewhere.path().join(key);
    std::fs::write(&file, "").unwrap();
    let mut command = Binary::command(dir.path());
    command.arg("--config").arg(file);
    let server = Binary::start_as(&mut command, dir.path(), None).await;
    server.kill().await;
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
