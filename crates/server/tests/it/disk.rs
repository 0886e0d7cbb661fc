//! A disk that is full outside of the sandboxes: that of the data directory.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::{
    Binary, Disk, Does as _, Output, TestServer, bash, leftovers, log, message, of, outlast, said,
    script, until,
};

/// How long the disk stays full: longer than a brain that gives up would have tried.
const FULL: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_what_is_new_and_loses_nothing() {
    let disk = Disk::mount(24);
    let dir = tempfile::tempdir_in(disk.path()).unwrap();
    let server = TestServer::start_in(dir, |_| {}).await;
    let session = server.client().session("scripted").await;
    server.play(&session, &[message("before")], 1).await;
    disk.fill();
    assert!(outlast_blobs::lacks_room(disk.path()));
    let path = format!("/v1/sessions/{session}/events");
    // Small appends may still fit into what the database has; a large one does not.
    let large = "y".repeat(1 << 20);
    let refused = until("the disk to be full", async || {
        let body = json!({"events": [message(&format!("refused {large}"))]});
        server.client().post(&path, &body).await.err()
    })
    .await;
    assert_eq!(refused.status(), Some(503), "{refused}");
    is_named(&refused.to_string(), disk.path());
    let full = small_ones_too(&server, &path).await;
    is_named(&full, disk.path());
    // Every probe takes a little of the room that is left in the log of the database.
    until("the server not to be ready", async || {
        let body = json!({"events": [message("small")]});
        drop(server.client().post(&path, &body).await);
        let told = server.client().get("/readyz", &[]).await.err()?;
        is_named(&told.to_string(), disk.path());
        Some(())
    })
    .await;
    let found = server.client().get("/outlast/v1/diagnosis", &[]).await;
    let failure = &found.unwrap()["store_failure"];
    assert_eq!(failure["kind"], "disk_full", "{failure}");
    assert!(failure["since"].is_string(), "{failure}");
    let found = format!("/outlast/v1/sessions/{session}/diagnosis");
    let found = server.client().get(&found, &[]).await.unwrap();
    assert_eq!(found["troubles"][0]["kind"], "disk_full", "{found}");
    told_now_and_then(disk.path());
    // What was accepted can still be read.
    let kept = server.client().events(&session).await;
    assert!(
        of(&kept, "user.message")
            .iter()
            .any(|event| event["content"][0]["text"] == "before")
    );
    disk.free();
    until("the server to take events again", async || {
        let body = json!({"events": [message("after")]});
        server.client().post(&path, &body).await.ok()
    })
    .await;
    until("the message to be taken in", async || {
        let events = server.client().events(&session).await;
        let taken = |event: &&Value| {
            event["content"][0]["text"] == "after" && !event["processed_at"].is_null()
        };
        of(&events, "user.message").iter().any(taken).then_some(())
    })
    .await;
    let events = server.client().events(&session).await;
    for event in &kept {
        assert!(
            events.iter().any(|other| other["id"] == event["id"]),
            "{event} is lost"
        );
    }
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_that_only_an_object_met_is_told() {
    let disk = Disk::mount(24);
    let dir = tempfile::tempdir_in(disk.path()).unwrap();
    let dir = dir.path();
    let server = Binary::start(dir, None).await;
    let client = server.client.clone().patient(Duration::ZERO);
    disk.fill();
    let large = json!({"name": "n", "model": "scripted", "system": "s".repeat(90_000)});
    until("an agent to be refused", async || {
        let refused = client.post("/v1/agents", &large).await.err()?;
        (refused.status() == Some(503)).then_some(())
    })
    .await;
    let found = client.get("/outlast/v1/diagnosis", &[]).await.unwrap();
    let failure = &found["store_failure"];
    assert_eq!(failure["kind"], "disk_full", "{failure}");
    let doctor = Output::of(outlast(dir).arg("doctor")).await;
    let told = doctor.out.contains(", disk_full") && doctor.out.contains("; make room on the disk");
    assert!(told, "{doctor:?}");
    disk.free();
    assert!(server.stop().await.success());
}

/// Asserts that a client is told that the disk is full, and not where.
#[track_caller]
fn is_named(told: &str, place: &Path) {
    assert!(told.contains("the server's disk is full"), "{told}");
    assert!(!told.contains(place.to_str().unwrap()), "{told}");
}

/// Sends small messages until they are refused too; returns what is said then.
async fn small_ones_too(server: &TestServer, path: &str) -> String {
    let refused = until("small ones to be refused", async || {
        let body = json!({"events": [message(&"z".repeat(10_000))]});
        let sent = server.client().post(path, &body).await;
        sent.err().filter(|error| error.status() == Some(503))
    })
    .await;
    refused.to_string()
}

/// Asserts that the operator is told of the directory, and not with every request.
fn told_now_and_then(place: &Path) {
    let lines = log::lines();
    let place = place.to_str().unwrap();
    let told = |line: &&str| line.contains("the disk is full") && line.contains(place);
    let count = lines.lines().filter(told).count();
    // The database and the blobs each have their own.
    assert!((1..=4).contains(&count), "{count}");
}

/// Asserts that a start that found no room says so once, where, and what to do.
#[track_caller]
fn is_said_once(refused: &Output, dir: &Path) {
    let told = format!(
        "error: the disk of the data directory `{}` is full, and nothing starts without room\n",
        dir.display()
    );
    let once = refused.err.matches(" full").count() == 1;
    assert!(
        refused.err.contains(&told) && once && refused.err.contains("make room there"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_first_start_without_room_says_where() {
    let disk = Disk::mount(1);
    disk.fill();
    let dir = disk.path().join("data");
    for _ in 0..2 {
        let refused = Output::of(Binary::command(&dir).arg("serve")).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        is_said_once(&refused, &dir);
    }
}

/// A call that says when it begins, goes on for so long, and counts how often it ran.
fn counted(seconds: f32) -> Value {
    bash(&format!(
        "echo x >> count; sync -f count; sleep {seconds}; cat count"
    ))
}

/// Tells whether such a call has begun.
fn begun(dir: &Path) -> bool {
    leftovers::inside(dir, "count").is_some()
}

/// Begins a turn in each of some sessions; each first has a sandbox that has done something.
async fn sessions(server: &Binary, turns: &[Value]) -> Vec<String> {
    let mut sessions = Vec::new();
    for _ in turns {
        let session = server.client.session("scripted").await;
        let steps = json!([bash("echo > warm; sync -f warm"), {"text": "warm"}]);
        server.client.send(&session, &[script(steps)]).await;
        server.client.idle(&session, 1).await;
        sessions.push(session);
    }
    for (session, steps) in sessions.iter().zip(turns) {
        server.client.send(session, &[script(steps.clone())]).await;
    }
    sessions
}

/// Keeps a disk full for a while, but for some moments; returns what a client is told who sends words.
async fn stay_full(disk: &Disk, server: &Binary, session: &str, words: &str) -> Option<u16> {
    let full = Instant::now() + FULL;
    let (mut refused, mut round) = (None, 0);
    let path = format!("/v1/sessions/{session}/events");
    let body = json!({"events": [message(words)]});
    while Instant::now() < full {
        disk.fill();
        if let Err(error) = server.client.post(&path, &body).await {
            refused = error.status();
        }
        sleep(Duration::from_millis(500)).await;
        round += 1;
        if round % 8 == 0 {
            disk.free();
            sleep(Duration::from_millis(20)).await;
        }
    }
    refused
}

/// Writes into a workspace; a sandbox that lost something while the disk was full says so once, and its
/// successor takes it.
async fn takes_more(server: &Binary, session: &str) {
    for turn in 3.. {
        let steps = json!([bash("echo y > more && sync more && cat more"), {"text": "end"}]);
        server.client.send(session, &[script(steps)]).await;
        let events = server.client.idle(session, turn).await;
        let last = *of(&events, "agent.tool_result").last().unwrap();
        if last["is_error"] == false {
            assert_eq!(said(last).trim(), "y", "{last}");
            return;
        }
        let told = last.to_string().contains("the host's disk is full");
        assert!(told && turn == 3, "{last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_wait_while_the_disk_is_full_and_go_on_by_themselves() {
    let disk = Disk::mount(128);
    let dir = tempfile::tempdir_in(disk.path()).unwrap();
    let dir = dir.path();
    let server = Binary::start(dir, None).await;
    let large = "z".repeat(100_000);
    let turns = [
        json!([counted(3.0), {"text": "{{results}}"}]),
        json!([counted(FULL.as_secs_f32() + 5.0), {"text": "{{results}}"}]),
        json!([{"content": [{"text": "one"}, {"pause_ms": 3000}, {"text": "two"}]}]),
        // Goes to a blob.
        json!([{"content": [{"pause_ms": 2000}, {"text": large}]}]),
        json!(
            (0..40)
                .map(|_| bash("sleep 0.1"))
                .chain([json!({"text": "all"})])
                .collect::<Vec<_>>()
        ),
    ];
    let sessions = sessions(&server, &turns).await;
    until("the calls to run", async || {
        let count = leftovers::inits(dir).len();
        (count == 5 && begun(dir)).then_some(())
    })
    .await;
    // What they wrote is on the disk.
    sleep(Duration::from_millis(500)).await;
    let refused = stay_full(&disk, &server, &sessions[0], &large).await;
    assert_eq!(refused, Some(503));
    let doctor = Output::of(outlast(dir).arg("doctor")).await;
    assert!(doctor.out.contains(", disk_full"), "{doctor:?}");
    disk.free();
    let mut all = Vec::new();
    for session in &sessions {
        all.push(server.client.idle(session, 2).await);
    }
    for (number, events) in all.iter().enumerate() {
        let results = of(events, "agent.tool_result");
        let errors = results.iter().filter(|result| result["is_error"] == true);
        let words: Vec<_> = errors.map(|result| said(result)).collect();
        // One that begins while there is no room for a word on it does not run, and says so.
        let only_unstarted = words.iter().all(|words| words.contains("No space left"));
        assert!(
            only_unstarted && (number > 1 || words.is_empty()),
            "{number}: {words:?}"
        );
        assert!(
            of(events, "session.error").is_empty(),
            "{number}: {events:?}"
        );
    }
    for events in &all[..2] {
        let results = of(events, "agent.tool_result");
        assert_eq!(
            (results.len(), said(results[1]).trim()),
            (2, "x"),
            "{results:?}"
        );
    }
    // And every workspace takes more, some after they said once that something was not stored.
    for session in &sessions {
        takes_more(&server, session).await;
    }
    let spoken = |events: &[Value]| said(of(events, "agent.message").last().unwrap()).to_owned();
    assert!(spoken(&all[2]).starts_with("one") && spoken(&all[3]) == large);
    assert!(server.stop().await.success());
    let verified = Output::of(outlast(dir).arg("verify")).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_on_a_full_disk_finds_the_result() {
    let disk = Disk::mount(128);
    let dir = tempfile::tempdir_in(disk.path()).unwrap();
    let dir = dir.path();
    let server = Binary::start(dir, None).await;
    let key = std::fs::read_to_string(dir.join("local.key")).unwrap();
    let turns = [json!([counted(2.0), {"text": "{{results}}"}])];
    let sessions = sessions(&server, &turns).await;
    until("the call to run", async || begun(dir).then_some(())).await;
    sleep(Duration::from_millis(500)).await;
    disk.fill();
    // It is over, and nothing of it could be written.
    sleep(Duration::from_secs(4)).await;
    server.kill().await;
    let mut command = Binary::command(dir);
    let refused = Output::of(command.arg("serve")).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    is_said_once(&refused, dir);
    disk.free();
    let server = Binary::start(dir, Some(key.trim())).await;
    let events = server.client.idle(&sessions[0], 2).await;
    let results = of(&events, "agent.tool_result");
    assert_eq!(results.len(), 2, "{results:?}");
    assert_eq!(said(results[1]).trim(), "x", "{results:?}");
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sandbox_could_not_store_is_told_and_the_next_one_is_sound() {
    let disk = Disk::mount(128);
    let dir = tempfile::tempdir_in(disk.path()).unwrap();
    let dir = dir.path();
    let server = Binary::start(dir, None).await;
    let write = "echo kept > kept; sync -f kept; echo > count; sleep 3; \
                 head -c 9000000 /dev/urandom > lost && echo written";
    let turns = [json!([bash(write), {"text": "{{results}}"}])];
    let sessions = sessions(&server, &turns).await;
    until("the call to run", async || begun(dir).then_some(())).await;
    disk.fill();
    sleep(Duration::from_secs(6)).await;
    disk.free();
    let events = server.client.idle(&sessions[0], 2).await;
    let last = *of(&events, "agent.tool_result").last().unwrap();
    let told = said(last).contains("written") && last.to_string().contains("host's disk is full");
    assert!(told && last["is_error"] == true, "{last}");
    let again = "cat kept && head -c 9000000 /dev/zero > lost && sync -f lost && wc -c < lost";
    let steps = json!([bash(again), {"text": "{{results}}"}]);
    server.client.send(&sessions[0], &[script(steps)]).await;
    let events = server.client.idle(&sessions[0], 3).await;
    let last = *of(&events, "agent.tool_result").last().unwrap();
    assert_eq!(said(last).trim(), "kept\n9000000", "{last}");
    assert!(server.stop().await.success());
}
