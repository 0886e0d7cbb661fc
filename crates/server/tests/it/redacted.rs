//! What was redacted is gone from the server's own files, and the session goes on.

use std::{
    fs,
    path::{Path, PathBuf},
};

use outlast_testkit::postgres::{Cluster, Syncs};
use serde_json::{Value, json};

use crate::support::{
    Binary, Does as _, Output, TestServer, bash, leftovers, message, of, outlast, said, script,
};

/// Stands in everything that is redacted.
const CANARY: &str = "canary-of-the-redacted";

/// Returns files that have the canary; sandboxes are not the log.
fn holding(dir: &Path) -> Vec<PathBuf> {
    let mut found = leftovers::holding(dir, &[CANARY], "nothing");
    found.retain(|path| !path.starts_with(dir.join("hands")));
    found
}

/// Returns the events that say something with the canary in it.
fn telling(events: &[Value]) -> Vec<&str> {
    let told = events
        .iter()
        .filter(|event| event.to_string().contains(CANARY));
    told.map(|event| event["id"].as_str().unwrap()).collect()
}

/// Plays a turn in which everybody says the canary: in words, in a call, in its result, at length.
fn turn() -> Value {
    let steps = json!([
        bash(&format!("echo {CANARY}")),
        {"text": format!("it says {CANARY}")},
    ]);
    let pad = CANARY.repeat(10_000);
    message(&json!({"script": steps, "pad": pad}).to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_without_what_was_redacted() {
    let server = TestServer::start().await;
    let client = server.client();
    let session = client.session(TestServer::UPSTREAM).await;
    let events = server.play(&session, &[turn()], 1).await;
    let events_of = telling(&events);
    assert_eq!(
        events_of.len(),
        4,
        "message, call, result, answer: {events:?}"
    );
    assert!(holding(server.dir()).len() > 1, "it was there");

    let path = format!("/outlast/v1/sessions/{session}/redact");
    let wish = json!({"event_ids": events_of, "because": "a canary"});
    let done = client.post(&path, &wish).await.unwrap();
    assert_eq!(done["type"], "session_redaction");
    assert!(done["positions"].as_array().unwrap().len() >= 7, "{done}");
    assert_eq!(holding(server.dir()), Vec::<PathBuf>::new());
    let again = client.post(&path, &wish).await.unwrap();
    assert_eq!(
        (&again["positions"], &again["at"]),
        (&json!([]), &Value::Null)
    );

    // The same events, of the same types, in the same order.
    let left = client.events(&session).await;
    assert_eq!(telling(&left), Vec::<&str>::new());
    let outline = |events: &[Value]| -> Vec<(Value, Value)> {
        let parts = events
            .iter()
            .map(|event| (event["id"].clone(), event["type"].clone()));
        parts.collect()
    };
    assert_eq!(outline(&left), outline(&events));
    for kind in ["user.message", "agent.message", "agent.tool_result"] {
        assert_eq!(said(of(&left, kind)[0]), "[erased]", "{kind}");
    }
    let call = of(&left, "agent.tool_use")[0];
    assert_eq!(
        (&call["name"], &call["input"]),
        (&json!("bash"), &json!({}))
    );

    // The model behind refuses what is not well formed.
    let asked = server.asked();
    server
        .play(&session, &[script(json!([{"text": "on it goes"}]))], 2)
        .await;
    let request = server.sent(asked).to_string();
    assert!(
        !request.contains(CANARY) && request.contains("[erased]"),
        "{request}"
    );
    assert!(
        request.contains("tool_use") && request.contains("tool_result"),
        "{request}"
    );
    let bundle = server.dir().join("none");
    assert!(!bundle.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_at_work_is_not_redacted_and_says_why() {
    let server = TestServer::start().await;
    let client = server.client();
    let session = client.session("scripted").await;
    let sent = client
        .send(
            &session,
            &[script(json!([bash("sleep 600"), {"text": "x"}]))],
        )
        .await;
    crate::support::until("the call to begin", async || {
        let events = client.events(&session).await;
        (!of(&events, "agent.tool_use").is_empty()).then_some(())
    })
    .await;
    let path = format!("/outlast/v1/sessions/{session}/redact");
    let wish = json!({"event_ids": [sent[0]["id"]], "because": "too soon"});
    let refused = client.post(&path, &wish).await.unwrap_err().to_string();
    assert!(refused.contains("is running"), "{refused}");
    client
        .send(&session, &[json!({"type": "user.interrupt"})])
        .await;
    client.idle(&session, 1).await;
    client.post(&path, &wish).await.unwrap();
}

/// Runs the binary on a data directory, and a database if there is one.
async fn run(dir: &Path, cluster: Option<&Cluster>, arguments: &[&str]) -> Output {
    let mut command = outlast(dir);
    if let Some(cluster) = cluster {
        command.env("OUTLAST_DATABASE_URL", cluster.url("postgres"));
    }
    Output::of(command.args(arguments)).await
}

/// Redacts through the server and without it; the canary is in neither export.
async fn by_command(cluster: Option<&Cluster>) {
    let dir = tempfile::tempdir().unwrap();
    let run = async |arguments: &[&str]| run(dir.path(), cluster, arguments).await;
    let mut command = Binary::command(dir.path());
    if let Some(cluster) = cluster {
        command.env("OUTLAST_DATABASE_URL", cluster.url("postgres"));
    }
    let server = Binary::start_as(&mut command, dir.path(), None).await;
    let id = server.client.session("scripted").await;
    server.client.send(&id, &[turn()]).await;
    let events = server.client.idle(&id, 1).await;
    let named: Vec<String> = telling(&events).into_iter().map(str::to_owned).collect();
    let redact = |events: &[String]| {
        let mut arguments = vec!["redact".to_owned(), id.clone()];
        arguments.extend_from_slice(events);
        arguments.extend(["--because".to_owned(), "they asked".to_owned()]);
        arguments
    };
    let said = async |events: &[String]| {
        let arguments = redact(events);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(&arguments).await
    };
    let unknown = said(&["sevt_010000000000000000000001".to_owned()]).await;
    assert!(
        unknown.code == Some(1) && unknown.err.contains("not found"),
        "{unknown:?}"
    );
    let first = said(&named[..1]).await;
    assert!(
        first.code == Some(0) && first.out.contains("erased at"),
        "{first:?}"
    );
    assert!(server.stop().await.success());

    let rest = said(&named).await;
    assert_eq!(rest.code, Some(0), "{rest:?}");
    let again = said(&named).await;
    assert!(again.out.contains("all was erased before"), "{again:?}");
    let verified = run(&["verify"]).await;
    assert!(
        verified.code == Some(0) && verified.out.contains("erased at"),
        "{verified:?}"
    );
    let (file, bundle) = (
        dir.path().join("all.jsonl"),
        dir.path().join("bundle.tar.gz"),
    );
    for (command, path) in [("export", &file), ("support-bundle", &bundle)] {
        let path = path.to_str().unwrap();
        let arguments: &[&str] = if command == "export" {
            &[command, "--all", "-o", path]
        } else {
            &[command, &id, "-o", path]
        };
        let done = run(arguments).await;
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    assert!(fs::read_to_string(&file).unwrap().contains("they asked"));
    assert_eq!(holding(dir.path()), Vec::<PathBuf>::new());
    // It comes in elsewhere with its holes.
    let other = tempfile::tempdir().unwrap();
    let file = file.to_str().unwrap();
    let imported = Output::of(outlast(other.path()).args(["import", file])).await;
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let verified = Output::of(outlast(other.path()).arg("verify")).await;
    assert!(
        verified.code == Some(0) && verified.out.contains("erased at"),
        "{verified:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_redacts_with_a_server_and_without() {
    by_command(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_redacts_in_a_postgres() {
    let cluster = Cluster::start(Syncs::None);
    by_command(Some(&cluster)).await;
}
