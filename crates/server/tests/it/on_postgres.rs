//! A whole server on a Postgres: a session with a tool, two restarts, and a database that goes.

use std::{path::Path, time::Duration};

use outlast_server::client::{Client, From, Previews};
use outlast_testkit::postgres::{Cluster, Stop, Syncs};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{Binary, Does as _, Output, bash, message, of, outlast, said, script, until};

/// Stands in the URL and nowhere else.
const PASSWORD: &str = "canary-of-the-database";

/// Names the database to a command.
fn on<'c>(command: &'c mut Command, cluster: &Cluster) -> &'c mut Command {
    let url = cluster.url("postgres");
    let url = url.replacen("postgres@", &format!("postgres:{PASSWORD}@"), 1);
    command.env("OUTLAST_DATABASE_URL", url)
}

async fn start(dir: &Path, cluster: &Cluster, key: Option<&str>) -> Binary {
    Binary::start_as(on(&mut Binary::command(dir), cluster), dir, key).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_lives_in_postgres() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(Syncs::None);

    // The schema can be made first, and is made once.
    for words in ["was brought from schema 0 to", "has schema"] {
        let made = Output::of(on(&mut outlast(dir.path()), &cluster).arg("migrate")).await;
        assert_eq!(made.code, Some(0), "{}", made.err);
        assert!(made.out.contains(words), "{}", made.out);
    }
    let printed =
        Output::of(on(&mut outlast(dir.path()), &cluster).args(["config", "print"])).await;
    assert!(printed.out.contains("[database]"), "{}", printed.out);

    // Killed in a call, which goes on.
    let first = start(dir.path(), &cluster, None).await;
    let key = std::fs::read_to_string(dir.path().join("local.key")).unwrap();
    let session = first.client.session("scripted").await;
    let steps = json!([
        bash("echo kept > /workspace/file; sleep 1; echo done"),
        {"text": "{{results}}"},
    ]);
    let sent = first.client.send(&session, &[script(steps)]).await;
    until("the call to begin", async || {
        let events = first.client.events(&session).await;
        (!of(&events, "agent.tool_use").is_empty()).then_some(())
    })
    .await;
    first.kill().await;
    assert!(
        !dir.path().join("outlast.db").exists(),
        "there is one database"
    );

    let second = start(dir.path(), &cluster, Some(key.trim())).await;
    let events = second.client.idle(&session, 1).await;
    assert!(events.iter().any(|event| event["id"] == sent[0]["id"]));
    assert_eq!(said(of(&events, "agent.tool_result")[0]).trim(), "done");
    let once = |events: &[Value]| {
        let mut ids: Vec<_> = events.iter().map(|event| event["id"].to_string()).collect();
        ids.sort_unstable();
        let all = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), all, "an event is there twice");
    };
    once(&events);

    // The database goes for a moment, and what is sent meanwhile is sent again.
    cluster.stop(Stop::Immediate);
    cluster.resume();
    second
        .client
        .send(&session, &[message("still there?")])
        .await;
    second.client.idle(&session, 2).await;
    assert!(second.stop().await.success());

    let third = start(dir.path(), &cluster, Some(key.trim())).await;
    let steps = json!([bash("cat /workspace/file"), {"text": "{{results}}"}]);
    third.client.send(&session, &[script(steps)]).await;
    let events = third.client.idle(&session, 3).await;
    once(&events);
    let results = of(&events, "agent.tool_result");
    assert_eq!(said(results[results.len() - 1]).trim(), "kept");
    assert!(third.stop().await.success());

    for (what, text) in [
        ("config print", printed.out),
        (
            "the log",
            std::fs::read_to_string(dir.path().join("server.log")).unwrap(),
        ),
        ("the events", serde_json::to_string(&events).unwrap()),
    ] {
        assert!(!text.contains(PASSWORD), "the password stands in {what}");
    }
    let host = dir.path().join("hand-host.toml");
    assert!(!std::fs::read_to_string(host).unwrap().contains(PASSWORD));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there_is_said_so() {
    let dir = tempfile::tempdir().unwrap();
    for (url, code, words) in [
        ("postgres://u:canary@%2Fnowhere/d", 1, "cannot be reached"),
        // Where the server itself listens: somebody is there, and says nothing.
        ("postgres://u:canary@127.0.0.1:1/d", 1, "it said nothing"),
        (
            "postgres://u:canary@h/d?sslmode=sometimes",
            2,
            "sslmode=sometimes",
        ),
        ("mysql://u:canary@h/d", 2, "database.url"),
    ] {
        let mut command = outlast(dir.path());
        let said = Output::of(command.env("OUTLAST_DATABASE_URL", url).arg("serve")).await;
        assert_eq!(said.code, Some(code), "{}", said.err);
        assert!(said.err.contains(words), "{}", said.err);
        assert!(!said.err.contains("canary"), "{}", said.err);
    }
}

/// Asks without patience, as often as it takes, until the answer has this status.
async fn answers_with(client: &Client, session: &str, status: u16) {
    until(&format!("an answer with {status}"), async || {
        let body = json!({"events": [{"type": "user.interrupt"}]});
        let path = format!("/v1/sessions/{session}/events");
        let sent = client.post(&path, &body).await;
        (sent.err()?.status() == Some(status)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_gone_for_a_while_costs_nothing_but_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(Syncs::None);
    let server = start(dir.path(), &cluster, None).await;
    let hasty = server.client.clone().patient(Duration::ZERO);
    let (worker, idle) = (
        server.client.session("scripted").await,
        server.client.session("scripted").await,
    );
    let mut follow = server.client.follow(&idle, From::Now, Previews::Hidden);
    follow.open().await.unwrap();
    let calls: Vec<_> = (0..12)
        .map(|number| {
            bash(&format!(
                "echo {number} >> /workspace/lines; sleep 1; echo {number}"
            ))
        })
        .chain([json!({"text": "end"})])
        .collect();
    server.client.send(&worker, &[script(json!(calls))]).await;
    until("the first call", async || {
        let events = server.client.events(&worker).await;
        (!of(&events, "agent.tool_use").is_empty()).then_some(())
    })
    .await;
    // Away, then there and dumb.
    cluster.stop(Stop::Fast);
    answers_with(&hasty, &idle, 503).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    cluster.resume();
    server.client.send(&idle, &[message("back?")]).await;
    cluster.freeze();
    answers_with(&hasty, &idle, 503).await;
    cluster.thaw();
    let events = server.client.idle(&worker, 1).await;
    let results = of(&events, "agent.tool_result");
    assert_eq!(results.len(), 12);
    assert!(
        results.iter().all(|result| result["is_error"] == false),
        "{results:#?}"
    );
    let steps = json!([bash("cat /workspace/lines"), {"text": "end"}]);
    server.client.send(&worker, &[script(steps)]).await;
    let events = server.client.idle(&worker, 2).await;
    let lines = said(of(&events, "agent.tool_result")[12]).to_owned();
    assert_eq!(lines.lines().count(), 12, "{lines}");
    // The stream that stood open all the time has everything, once and in order.
    let events = server.client.idle(&idle, 1).await;
    let wanted: Vec<_> = events.iter().map(|event| event["id"].clone()).collect();
    let mut seen = Vec::new();
    while seen.last() != wanted.last() {
        let frame = follow.next().await.unwrap().expect("the session goes on");
        if frame.event["processed_at"].is_string() {
            seen.push(frame.event["id"].clone());
        }
    }
    assert_eq!(seen, wanted);
    assert!(server.stop().await.success());
}
