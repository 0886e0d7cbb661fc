//! A server that is stopped in order and started again while much is going on: nothing is lost,
//! nothing is doubled, and readers go on where they were.

use std::{path::Path, time::Duration};

use futures::future::join_all;
use outlast_server::client::{Client, From, Previews};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Binary, DEADLINE, Does as _, bash, message, of, said, script, signal, until};

/// Sessions that work when the server is stopped.
const SESSIONS: usize = 12;

/// Starts a server where another one listened.
async fn start_again(dir: &Path, url: &str) -> Binary {
    let key = std::fs::read_to_string(dir.join("local.key")).unwrap();
    let mut command = Binary::command(dir);
    let listen = url.trim_start_matches("http://");
    command.env("OUTLAST__SERVER__LISTEN", listen);
    Binary::start_as(&mut command, dir, Some(key.trim())).await
}

/// A turn that streams, calls, or does many small things.
fn turn(number: usize) -> Value {
    let stream = json!({"content": [{"text": "a"}, {"pause_ms": 900}, {"text": "z"}]});
    match number % 3 {
        0 => {
            let mut first = bash("echo x >> count; cat count");
            first["content"] = stream["content"].clone();
            json!([first, stream])
        }
        1 => json!([bash("echo x >> count; sleep 2; cat count"), {"text": "{{results}}"}]),
        _ => {
            let calls = (0..8).map(|n| bash(&format!("echo x >> count; echo did {n}")));
            let end = [bash("wc -l < count"), json!({"text": "end"})];
            json!(calls.chain(end).collect::<Vec<_>>())
        }
    }
}

/// Reads a session's stream to the end of its turn; returns the ids of the events in their places.
async fn read(client: &Client, session: &str) -> Vec<String> {
    let mut stream = client.follow(session, From::After(0), Previews::Shown);
    let (mut ids, mut over) = (Vec::new(), false);
    while !over {
        let frame = stream.next().await.unwrap().expect("the session goes on");
        if frame.event["processed_at"].is_string() {
            ids.push(frame.event["id"].as_str().unwrap().to_owned());
        }
        over = frame.kind == "session.status_idle";
    }
    ids
}

fn check(number: usize, events: &[Value], seen: &[String]) {
    let ids: Vec<_> = events
        .iter()
        .map(|event| event["id"].as_str().unwrap())
        .collect();
    assert_eq!(
        ids, seen,
        "session {number}: a gap or a double in the stream"
    );
    assert_eq!(of(events, "session.error"), Vec::<&Value>::new());
    assert_eq!(events.last().unwrap()["stop_reason"]["type"], "end_turn");
    // Each response was waited for, so that none was paid for twice.
    for end in of(events, "span.model_request_end") {
        assert_eq!(end["is_error"], false, "session {number}: {end}");
    }
    let results = of(events, "agent.tool_result");
    let last = said(results.last().unwrap()).trim();
    let expected = if number % 3 == 2 { "8" } else { "x" };
    assert_eq!(last, expected, "session {number}: {results:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_under_load_loses_and_doubles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let first = Binary::start(dir.path(), None).await;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(first.client.session("scripted").await);
    }
    let client = first.client.clone();
    let readers = join_all(sessions.iter().map(|session| read(&client, session)));
    let restarted = async {
        for (number, session) in sessions.iter().enumerate() {
            first.client.send(session, &[script(turn(number))]).await;
        }
        sleep(Duration::from_millis(700)).await;
        let url = first.url.clone();
        assert!(first.leave().await.success());
        start_again(dir.path(), &url).await
    };
    let both = async { tokio::join!(readers, restarted) };
    let (seen, second) = timeout(DEADLINE, both).await.expect("streams go on");
    for (number, session) in sessions.iter().enumerate() {
        let events = second.client.idle(session, 1).await;
        check(number, &events, &seen[number]);
    }
    assert!(second.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_served_while_turns_are_handed_back_and_a_second_signal_ends_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let first = Binary::start(dir.path(), None).await;
    let session = first.client.session("scripted").await;
    let slow = json!([{"content": [{"text": "a"}, {"pause_ms": 600_000}, {"text": "z"}]}]);
    first.client.send(&session, &[script(slow)]).await;
    until("the request to begin", async || {
        let events = first.client.events(&session).await;
        (!of(&events, "span.model_request_start").is_empty()).then_some(())
    })
    .await;
    signal(first.pid(), "TERM").await;
    let key = std::fs::read_to_string(dir.path().join("local.key")).unwrap();
    let hasty = Client::new(&first.url, Some(&key.trim().to_owned().into())).unwrap();
    until("it to be no use to new clients", async || {
        hasty.get("/readyz", &[]).await.is_err().then_some(())
    })
    .await;
    let sent = first.client.send(&session, &[message("and then?")]).await;
    let begun = Instant::now();
    let url = first.url.clone();
    assert_eq!(first.leave().await.code(), Some(130));
    // Far less than the half minute that turns are waited for.
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    let second = start_again(dir.path(), &url).await;
    second
        .client
        .send(&session, &[json!({"type": "user.interrupt"})])
        .await;
    let events = second.client.idle(&session, 2).await;
    assert!(events.iter().any(|event| event["id"] == sent[0]["id"]));
    assert!(second.stop().await.success());
}
