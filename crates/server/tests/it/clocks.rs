//! A time of day that jumps under a whole server, back and forth, while calls run, at rest and between
//! two servers.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::{
    Binary, Does as _, Output, bash, leftovers, of, outlast, said, script, until,
};

/// How far clocks are set.
const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

/// What lets a process see another time of day; what it measures by stays as it is.
fn library() -> PathBuf {
    let places = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut found = places.map(|place| place.path().join("faketime/libfaketimeMT.so.1"));
    let found = found.find(|path| path.exists());
    found.expect("this test needs the Debian package `faketime`")
}

/// Sets the clock of the servers of a directory.
fn set(dir: &Path, seconds: i64) {
    // Renamed, so that nobody reads half of it.
    let new = dir.join("clock.new");
    fs::write(&new, format!("{seconds:+}\n")).unwrap();
    fs::rename(new, dir.join("clock")).unwrap();
}

/// Prepares a server by that clock.
fn command(dir: &Path) -> tokio::process::Command {
    let mut command = Binary::command(dir);
    command
        .env("LD_PRELOAD", library())
        .env("FAKETIME_TIMESTAMP_FILE", dir.join("clock"))
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("NO_FAKE_STAT", "1");
    command
}

/// Starts a server by that clock, whose sandboxes may become two hours old.
async fn start(dir: &Path, key: Option<&str>) -> Binary {
    let mut command = command(dir);
    command
        .env("OUTLAST__HANDS__MAX_AGE_SECONDS", (2 * HOUR).to_string())
        .env("OUTLAST__HANDS__CHECKPOINT_IDLE_SECONDS", "1")
        .env("OUTLAST__RETRIES__FIRST_SECONDS", "0.2");
    Binary::start_as(&mut command, dir, key).await
}

/// Begins a turn whose call goes on for so long.
async fn calls(server: &Binary, session: &str, seconds: u32) {
    let run = format!("echo x >> count; sleep {seconds}; cat count");
    let steps = json!([bash(&run), {"text": "{{results}}"}]);
    server.client.send(session, &[script(steps)]).await;
}

/// Begins a turn whose model fails some times before it answers.
async fn retries(server: &Binary, session: &str, after: u32) {
    let error = json!({"status": 529, "times": 3, "retry_after_ms": after});
    let steps = json!([{"text": "at last", "error": error}]);
    server.client.send(session, &[script(steps)]).await;
}

/// Returns the lines that the calls of a session saw at last.
fn seen(events: &[Value]) -> usize {
    let results = of(events, "agent.tool_result");
    let last = results.last().unwrap();
    assert_eq!(last["is_error"], false, "{last}");
    said(last).lines().count()
}

fn checkpoints(dir: &Path, session: &str) -> Vec<PathBuf> {
    let folder = dir.join("blobs/sessions").join(session).join("checkpoints");
    let mut found = leftovers::files(&folder);
    found.sort();
    found
}

/// Waits until the workspace of a session was saved anew.
async fn saved(dir: &Path, session: &str, before: &[PathBuf]) {
    until("a checkpoint", async || {
        let now = checkpoints(dir, session);
        (matches!(now.len(), 1 | 2) && now != before).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_delays_nothing_and_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    set(dir, 0);
    let server = start(dir, None).await;
    let key = fs::read_to_string(dir.join("local.key")).unwrap();
    let quiet = server.client.session("scripted").await;
    let busy = server.client.session("scripted").await;
    let retried = server.client.session("scripted").await;
    calls(&server, &quiet, 0).await;
    server.client.idle(&quiet, 1).await;
    saved(dir, &quiet, &[]).await;
    let mut turns = 1;
    for offset in [DAY, -HOUR, 30 * DAY, DAY - HOUR] {
        let before = checkpoints(dir, &quiet);
        calls(&server, &busy, 4).await;
        retries(&server, &retried, 100).await;
        sleep(Duration::from_millis(500)).await;
        let began = Instant::now();
        set(dir, offset);
        let events = server.client.idle(&busy, turns).await;
        assert_eq!(seen(&events), turns, "by {offset} s");
        let events = server.client.idle(&retried, turns).await;
        assert!(of(&events, "agent.message").len() == turns, "by {offset} s");
        calls(&server, &quiet, 0).await;
        turns += 1;
        let events = server.client.idle(&quiet, turns).await;
        assert_eq!(seen(&events), turns, "by {offset} s");
        saved(dir, &quiet, &before).await;
        // Longer than between two looks for what lies unused or is too old.
        sleep(Duration::from_secs(11).saturating_sub(began.elapsed())).await;
        assert_eq!(leftovers::inits(dir).len(), 2, "by {offset} s");
        assert!(began.elapsed() < Duration::from_secs(40), "by {offset} s");
    }
    // Across a restart, with a retry that a clock of the next day was to wake.
    let before = checkpoints(dir, &quiet);
    calls(&server, &quiet, 0).await;
    calls(&server, &busy, 4).await;
    retries(&server, &retried, 1_000).await;
    until("the model to fail", async || {
        let events = server.client.events(&retried).await;
        (of(&events, "session.error").len() > 3 * (turns - 1)).then_some(())
    })
    .await;
    server.kill().await;
    set(dir, -HOUR);
    let server = start(dir, Some(key.trim())).await;
    let began = Instant::now();
    let events = server.client.idle(&busy, turns).await;
    assert_eq!(seen(&events), turns);
    server.client.idle(&retried, turns).await;
    turns += 1;
    server.client.idle(&quiet, turns).await;
    saved(dir, &quiet, &before).await;
    assert!(began.elapsed() < Duration::from_secs(40));
    assert_eq!(leftovers::inits(dir).len(), 2);
    for session in [&quiet, &busy, &retried] {
        let events = server.client.events(session).await;
        let at = |event: &Value| event["processed_at"].as_str().unwrap().to_owned();
        let times: Vec<_> = events.iter().map(at).collect();
        assert!(times.is_sorted(), "{times:?}");
    }
    assert!(server.stop().await.success());
    let verified = Output::of(outlast(dir).arg("verify")).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

/// Starts a server by a clock that is set so, which keeps a day of its audit log, and has it make an
/// agent; returns how many the log tells of, and how often something was taken out of it.
async fn audited(dir: &Path, offset: i64, key: &mut Option<String>) -> (usize, usize) {
    set(dir, offset);
    let mut command = command(dir);
    command.env("OUTLAST__AUDIT__KEEP_DAYS", "1");
    let server = Binary::start_as(&mut command, dir, key.as_deref()).await;
    let own = fs::read_to_string(dir.join("local.key")).unwrap();
    *key = Some(own.trim().to_owned());
    // Old entries are first looked for at the start.
    sleep(Duration::from_secs(1)).await;
    let agent = json!({"name": "one more", "model": "scripted"});
    server.client.post("/v1/agents", &agent).await.unwrap();
    let listed = server.client.list("/outlast/v1/audit", &[], 1_000).await;
    let listed = listed.unwrap();
    let count = |action: &str| {
        let entries = listed.iter().filter(|entry| entry["action"] == action);
        entries.count()
    };
    let counted = (count("POST /v1/agents"), count("audit.trim"));
    assert!(server.stop().await.success());
    counted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_far_ahead_takes_nothing_out_of_the_audit_log() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut key = None;
    assert_eq!(audited(dir, -4 * DAY, &mut key).await, (1, 0));
    assert_eq!(audited(dir, 3_650 * DAY, &mut key).await, (2, 0));
    assert_eq!(audited(dir, -36 * HOUR, &mut key).await, (3, 0));
    // By a clock for which entries vouch the first and the third go; that of the future stays.
    assert_eq!(audited(dir, 0, &mut key).await, (2, 1));
}
