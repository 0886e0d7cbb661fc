//! The process that sandboxes live in, as `serve` finds, starts and loses it.

use std::path::Path;

use outlast_server::client::Client;
use serde_json::{Value, json};

use crate::support::{
    Binary, Does as _, Output, bash, host,
    leftovers::{self, inits},
    of, outlast, said, script, signal, until,
};

/// How often the server is killed.
const KILLS: usize = 100;

/// Calls that are appended by while something is killed at random.
const APPENDS: usize = 500;

/// Lines that calls have appended so far, as far as the sandbox lives.
fn lines(dir: &Path) -> usize {
    leftovers::inside(dir, "lines").map_or(0, |text| text.lines().count())
}

/// Plays one turn of one command, and returns what it printed.
async fn ran(client: &Client, session: &str, command: &str, turn: usize) -> String {
    let steps = json!([bash(command), {"text": "end"}]);
    client.send(session, &[script(steps)]).await;
    let events = client.idle(session, turn).await;
    let results = of(&events, "agent.tool_result");
    said(results.last().unwrap()).to_owned()
}

/// Asks the session for the lines that calls have appended.
async fn asked(client: &Client, session: &str, turn: usize) -> Vec<String> {
    let text = ran(client, session, "cat lines", turn).await;
    text.lines().map(str::to_owned).collect()
}

fn key(dir: &Path) -> String {
    let key = std::fs::read_to_string(dir.join("local.key")).unwrap();
    key.trim().to_owned()
}

/// Makes a step of one call that appends its number, once, to a file.
fn append(number: usize, pause: &str) -> Value {
    bash(&format!(
        "echo {number} >> /workspace/lines; {pause} echo {number}"
    ))
}

/// Compares what was told with what was done: each call that is told as done ran once, and none ran
/// twice. Returns how many were done.
fn compare(events: &[Value], mut ran: Vec<String>) -> usize {
    let results = of(events, "agent.tool_result");
    let count = ran.len();
    let done: Vec<_> = results
        .iter()
        .filter(|result| result["is_error"] == false)
        .map(|result| said(result).trim().to_owned())
        .collect();
    for number in &done {
        let times = ran.iter().filter(|line| *line == number).count();
        assert_eq!(times, 1, "call {number} ran {times} times");
    }
    ran.sort_unstable();
    ran.dedup();
    assert_eq!(ran.len(), count, "a call ran twice");
    done.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_server_a_hundred_times_costs_no_result_and_repeats_no_call() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut server = Binary::start(dir, None).await;
    let key = key(dir);
    let host = host::pid(dir).expect("a host");
    let session = server.client.session("scripted").await;
    // More calls than kills, each long enough to be hit.
    let calls = 2 * KILLS;
    let mut steps: Vec<_> = (0..calls)
        .map(|number| append(number, "sleep 0.05;"))
        .collect();
    steps.push(json!({"text": "end"}));
    server.client.send(&session, &[script(json!(steps))]).await;
    for round in 0..KILLS {
        let before = lines(dir);
        until("a call to run", async || {
            (before < lines(dir) || before >= calls).then_some(())
        })
        .await;
        // Not always at the same point of a call.
        tokio::time::sleep(std::time::Duration::from_millis(round as u64 * 7 % 60)).await;
        server.kill().await;
        assert_eq!(host::pid(dir), Some(host), "the host lives");
        server = Binary::start(dir, Some(&key)).await;
        assert!(server.banner.contains("found running"), "{}", server.banner);
    }
    let events = server.client.idle(&session, 1).await;
    let results = of(&events, "agent.tool_result");
    assert_eq!(results.len(), calls);
    for result in &results {
        assert_eq!(result["is_error"], false, "{result}");
    }
    let ran = asked(&server.client, &session, 2).await;
    assert_eq!(ran.len(), calls);
    assert_eq!(compare(&events, ran), calls);
    assert_eq!(host::pid(dir), Some(host));
    assert!(server.stop().await.success());
    host::gone(dir).await;
    assert_eq!(leftovers::processes(dir), Vec::<String>::new());
}

/// Plays a session in which something is killed during a call.
async fn killed_in_a_call(client: &Client, dir: &Path, victim: impl Fn() -> u32) -> Vec<Value> {
    let session = client.session("scripted").await;
    let steps = json!([
        bash("echo before > note; echo x >> begun; sleep 300"),
        bash("cat note begun"),
        {"text": "{{results}}"},
    ]);
    client.send(&session, &[script(steps)]).await;
    until("the call to run", async || {
        leftovers::inside(dir, "begun").map(drop)
    })
    .await;
    signal(victim(), "KILL").await;
    client.idle(&session, 1).await
}

fn one_error_and_all_files(events: &[Value]) {
    let results = of(events, "agent.tool_result");
    assert_eq!(results.len(), 2, "{results:?}");
    assert_eq!(results[0]["is_error"], true, "{}", results[0]);
    assert!(said(results[0]).contains("may have run"), "{}", results[0]);
    assert_eq!(results[1]["is_error"], false, "{}", results[1]);
    assert_eq!(said(results[1]).trim(), "before\nx");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_host_is_one_tool_error_and_another_one_takes_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = Binary::start(dir, None).await;
    let host = host::pid(dir).unwrap();
    let events = killed_in_a_call(&server.client, dir, || host).await;
    one_error_and_all_files(&events);
    let next = host::pid(dir).expect("another host");
    assert_ne!(next, host);
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_init_is_one_tool_error_and_nobody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = Binary::start(dir, None).await;
    let host = host::pid(dir).unwrap();
    let events = killed_in_a_call(&server.client, dir, || inits(dir)[0]).await;
    one_error_and_all_files(&events);
    assert_eq!(host::pid(dir), Some(host));
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn random_kills_repeat_no_call_and_lose_no_line() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut server = Binary::start(dir, None).await;
    let key = key(dir);
    let session = server.client.session("scripted").await;
    let calls: Vec<_> = (0..APPENDS)
        .map(|number| append(number, "")["calls"][0].clone())
        .collect();
    // Several in a response: some wait while another one runs.
    let mut steps: Vec<_> = calls
        .chunks(4)
        .map(|calls| json!({"calls": calls}))
        .collect();
    steps.push(json!({"text": "end"}));
    server.client.send(&session, &[script(json!(steps))]).await;
    let mut random = 0x9E37_79B9_u64;
    let (mut kills, mut events) = (0, Vec::new());
    while of(&events, "session.status_idle").is_empty() {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let wait = 100 + (random >> 33) % 400;
        tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
        match (random >> 20) % 4 {
            0 => {
                server.kill().await;
                server = Binary::start(dir, Some(&key)).await;
            }
            1 => {
                if let Some(pid) = host::pid(dir) {
                    signal(pid, "KILL").await;
                }
            }
            _ => {
                // One that is about to end by itself is no victim.
                if let Some(pid) = inits(dir).first() {
                    let mut kill = tokio::process::Command::new("kill");
                    drop(kill.args(["-KILL", &pid.to_string()]).output().await);
                }
            }
        }
        kills += 1;
        events = server.client.events(&session).await;
    }
    let told = of(&events, "agent.tool_result").len();
    let lines = asked(&server.client, &session, 2).await;
    let ran = lines.len();
    let done = compare(&events, lines);
    assert_eq!(told, APPENDS, "every call has a result");
    assert!(done <= ran && ran <= told, "{done} done, {ran} ran");
    assert!(
        kills > 5 && done > APPENDS / 2,
        "{kills} kills, {done} done"
    );
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deploy_does_not_end_a_call_and_the_host_is_nobodys_child() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut command = Binary::command(dir);
    command.env("OUTLAST_SECRET_CANARY", "canary-of-the-environment");
    let first = Binary::start_as(&mut command, dir, None).await;
    let (key, pid) = (key(dir), host::pid(dir).unwrap());
    let proc = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    assert_eq!(proc("environ"), "", "its environment is not empty");
    let stat = proc("stat");
    let fields: Vec<_> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    assert_ne!(
        fields[1],
        first.pid().to_string(),
        "it is a child of the server"
    );
    let session_of = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let rest = stat.rsplit(')').next().unwrap().to_owned();
        rest.split_whitespace().nth(3).unwrap().to_owned()
    };
    assert_ne!(session_of(pid), session_of(first.pid()));
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
    {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        let text = target.to_string_lossy().into_owned();
        let own = [
            "/dev/null",
            "socket:",
            "anon_inode:",
            "/memfd:",
            "pipe:",
            "/proc",
        ];
        let own = own.iter().any(|own| text.starts_with(own)) || text.contains("hand");
        assert!(own, "it inherited {text}");
        assert!(!text.contains("outlast.db") && !text.contains("server.log"));
    }

    let session = first.client.session("scripted").await;
    let steps = json!([bash("touch begun; sleep 3; echo late"), {"text": "{{results}}"}]);
    first.client.send(&session, &[script(steps)]).await;
    until("the call to run", async || {
        leftovers::inside(dir, "begun").map(drop)
    })
    .await;
    // It does not wait for the call: the next one does.
    assert!(first.leave().await.success());
    assert_eq!(host::pid(dir), Some(pid));
    let second = Binary::start(dir, Some(&key)).await;
    let events = second.client.idle(&session, 1).await;
    let results = of(&events, "agent.tool_result");
    assert_eq!((results.len(), said(results[0]).trim()), (1, "late"));
    assert!(second.stop().await.success());
    assert_eq!(leftovers::processes(dir), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn hands_that_nobody_wants_go() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let first = Binary::start(dir, None).await;
    let key = key(dir);
    let session = first.client.session("scripted").await;
    ran(&first.client, &session, "echo kept > note", 1).await;
    first.kill().await;
    assert_eq!(inits(dir).len(), 1);
    // What no session names: as if it was deleted and the server killed before it cleaned up.
    let orphan = dir.join("hands").join(format!("hand_01{:0>22}", 7));
    std::fs::create_dir_all(orphan.join("tree/upper")).unwrap();
    let mut command = Binary::command(dir);
    command.env("OUTLAST__HANDS__IDLE_SECONDS", "1");
    let second = Binary::start_as(&mut command, dir, Some(&key)).await;
    until("the orphan to go", async || {
        (!orphan.exists()).then_some(())
    })
    .await;
    until("the idle hand to go", async || {
        inits(dir).is_empty().then_some(())
    })
    .await;
    let note = ran(&second.client, &session, "cat note", 2).await;
    assert_eq!(note.trim(), "kept");
    let events = second.client.events(&session).await;
    let results = of(&events, "agent.tool_result");
    let told = &results[1]["content"][1]["text"];
    assert!(told.as_str().unwrap().contains("new sandbox"), "{told}");
    assert!(second.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_waits_for_a_server_only_so_long() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut command = Binary::command(dir);
    command.env("OUTLAST__HANDS__ORPHAN_SECONDS", "1");
    let first = Binary::start_as(&mut command, dir, None).await;
    let (key, session) = (key(dir), first.client.session("scripted").await);
    ran(&first.client, &session, "echo kept > note", 1).await;
    // A server that is there and wants nothing keeps it.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(inits(dir).len(), 1);
    first.kill().await;
    host::gone(dir).await;
    assert_eq!(leftovers::processes(dir), Vec::<String>::new());
    let second = Binary::start(dir, Some(&key)).await;
    assert!(second.banner.contains(", started"), "{}", second.banner);
    let note = ran(&second.client, &session, "cat note", 2).await;
    assert_eq!(note.trim(), "kept");
    assert!(second.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_can_be_kept_by_others_and_one_without_hands_goes_with_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // As a unit of its own would: in the foreground, before any server.
    let mut unit = outlast(dir).arg("hand-host").spawn().unwrap();
    let found = until("the host", async || host::pid(dir)).await;
    assert_eq!(Some(found), unit.id());
    let again = Output::of(outlast(dir).arg("hand-host")).await;
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains(&found.to_string()), "{again:?}");
    let server = Binary::start(dir, None).await;
    assert!(server.banner.contains("found running"), "{}", server.banner);
    let session = server.client.session("scripted").await;
    ran(&server.client, &session, "true", 1).await;
    server
        .client
        .delete(&format!("/v1/sessions/{session}"))
        .await
        .unwrap();
    until("the hand to go", async || {
        inits(dir).is_empty().then_some(())
    })
    .await;
    assert!(server.leave().await.success());
    host::gone(dir).await;
    assert!(unit.wait().await.unwrap().success());
    let none = Output::of(outlast(dir).args(["hand-host", "--stop"])).await;
    assert_eq!(
        (none.code, none.out.trim()),
        (Some(0), "there was no hand host")
    );
}
