use std::{path::Path, process::Stdio};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use crate::support::{Binary, Does as _, Output, bash, of, outlast, said, signal, until};

/// Returns tools that ask before every call.
fn asking() -> Value {
    json!([{
        "type": "agent_toolset_20260401",
        "default_config": {"permission_policy": {"type": "always_ask"}},
    }])
}

fn task(steps: Value) -> String {
    json!({"script": steps}).to_string()
}

/// Runs a task in a process of its own, without a server.
async fn run(dir: &Path, arguments: &[&str]) -> Output {
    Output::of(outlast(dir).arg("run").args(arguments)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_to_its_end_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let steps = json!([bash("echo from inside"), {"text": "It said: {{results}}"}]);
    let done = run(dir.path(), &[&task(steps)]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    // Text alone on standard output, so that it can be piped.
    assert_eq!(done.out.trim(), "It said: from inside");
    for part in [
        "in this process",
        "scripted",
        "sesn_",
        "> bash  echo from inside",
        "  from inside",
        "done;",
    ] {
        assert!(done.err.contains(part), "{part:?} is not in {}", done.err);
    }
    assert!(
        !done.err.contains('\u{1b}'),
        "no colours without a terminal: {}",
        done.err
    );
    // The session stays, and can be gone on with.
    let id = done
        .err
        .split("session  ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap();
    let more = task(json!([bash("cat /workspace/none || echo fresh"), {"text": "Again."}]));
    let again = run(dir.path(), &["--session", id, &more]).await;
    assert_eq!(
        (again.code, again.out.trim()),
        (Some(0), "Again."),
        "{again:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_get_one_object_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let done = run(dir.path(), &["--json", &task(json!([{"text": "Hello."}]))]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let lines: Vec<Value> = done
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["type"], "session");
    assert_eq!(lines.last().unwrap()["type"], "session.status_idle");
    assert_eq!(of(&lines, "agent.message").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_is_used_and_what_runs_need_is_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    for _ in 0..2 {
        let done = run(dir.path(), &[&task(json!([{"text": "Hello."}]))]).await;
        assert_eq!(
            (done.code, done.out.trim()),
            (Some(0), "Hello."),
            "{done:?}"
        );
        assert!(done.err.contains(&server.url), "{done:?}");
    }
    for path in ["/v1/agents", "/v1/environments"] {
        assert_eq!(
            server.client.list(path, &[], 100).await.unwrap().len(),
            1,
            "{path}"
        );
    }
    assert_eq!(
        server
            .client
            .list("/v1/sessions", &[], 100)
            .await
            .unwrap()
            .len(),
        2
    );
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn input_can_come_from_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = outlast(dir.path());
    let done = Output::with_input(
        command.args(["run", "-"]),
        &task(json!([{"text": "Read."}])),
    )
    .await;
    assert_eq!((done.code, done.out.trim()), (Some(0), "Read."), "{done:?}");
    let empty = Output::with_input(outlast(dir.path()).args(["run", "-"]), " \n").await;
    assert_eq!(empty.code, Some(2), "{empty:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn codes_tell_scripts_how_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let nobody = run(dir.path(), &["--url", &gone, "hello"]).await;
    assert_eq!(nobody.code, Some(3), "{nobody:?}");
    assert!(
        nobody.err.contains(&gone) && nobody.err.contains("hint:"),
        "{nobody:?}"
    );
    let wrong = run(dir.path(), &["--nonsense"]).await;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    let failed = task(json!([{"error": {"status": 400, "message": "no way"}}]));
    let ended = run(dir.path(), &[&failed]).await;
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.err.contains("no way"), "{ended:?}");
    let refused = task(json!([{"refusal": {"category": "bio", "explanation": "not that"}}]));
    let ended = run(dir.path(), &[&refused]).await;
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.err.contains("not that"), "{ended:?}");
    let unknown = run(dir.path(), &["--model", "claude-opus-4-8", "hello"]).await;
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(unknown.err.contains("claude-opus-4-8"), "{unknown:?}");
    let missing = run(
        dir.path(),
        &["--session", "sesn_010000000000000000000000", "hello"],
    )
    .await;
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(missing.err.contains("sessions list"), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_without_a_person_says_how_to_answer() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let id = server.client.session_with("scripted", asking()).await;
    let steps = task(json!([bash("echo allowed"), {"text": "{{results}}"}]));
    let waits = run(dir.path(), &["--session", &id, &steps]).await;
    assert_eq!(waits.code, Some(5), "{waits:?}");
    let call = waits
        .err
        .split_whitespace()
        .find(|word| word.starts_with("sevt_"))
        .unwrap();
    assert!(
        waits.err.contains("bash  echo allowed") && waits.err.contains("--allow"),
        "{waits:?}"
    );
    let mut command = outlast(dir.path());
    let sent = Output::of(command.args(["sessions", "send", &id, "--allow", call])).await;
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let events = server.client.idle(&id, 2).await;
    assert_eq!(said(of(&events, "agent.message")[0]).trim(), "allowed");
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_at_a_terminal_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let id = server.client.session_with("scripted", asking()).await;
    let steps = task(json!([bash("echo allowed"), bash("echo denied"), {"text": "{{results}}"}]));
    // A terminal of its own; what is typed waits in it until somebody reads.
    let binary = env!("CARGO_BIN_EXE_outlast");
    let run = format!("{binary} run --session {id} '{steps}'");
    let usual = outlast(dir.path());
    let environment = usual.as_std().get_envs();
    let mut terminal = Command::new("script");
    terminal
        .env_clear()
        .envs(environment.filter_map(|(name, value)| Some((name, value?))));
    terminal
        .env("TERM", "xterm")
        .args(["-qec", &run, "/dev/null"]);
    terminal.stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = Output::with_input(&mut terminal, "what?\ny\nno, not that one\n").await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.out.matches("may it run?").count(), 3, "{done:?}");
    assert!(
        done.out.contains("not that one") && done.out.contains("\u{1b}[36m"),
        "{done:?}"
    );
    let events = server.client.events(&id).await;
    let results = of(&events, "agent.tool_result");
    assert_eq!(said(results[0]).trim(), "allowed");
    assert!(said(results[1]).contains("not that one"), "{}", results[1]);
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_interrupt_stops_the_agent_and_the_second_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let steps = task(json!([{"pause_ms": 600_000, "text": "Never."}]));
    let mut child = outlast(dir.path()).args(["run", &steps]).spawn().unwrap();
    let id = session_of(&mut child).await;
    let begun = async || {
        let events = server.client.events(&id).await;
        (!of(&events, "span.model_request_start").is_empty()).then_some(())
    };
    until("the request to begin", begun).await;
    signal(child.id().unwrap(), "INT").await;
    let done = Output::of_child(child).await;
    assert_eq!(done.code, Some(130), "{done:?}");
    let events = server.client.events(&id).await;
    assert_eq!(of(&events, "user.interrupt").len(), 1);
    assert_eq!(events.last().unwrap()["stop_reason"]["type"], "end_turn");
    assert!(server.stop().await.success());
}

/// Reads a run's first lines up to the id of its session; the rest is read by nobody.
async fn session_of(child: &mut tokio::process::Child) -> String {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    loop {
        let line = lines.next_line().await.unwrap().expect("a session");
        if let Some(id) = line.strip_prefix("session  ") {
            // Goes on reading, so that the run never writes into a closed pipe.
            #[expect(clippy::disallowed_methods, reason = "ends with the run")]
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return id.to_owned();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_outlives_a_restart_of_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port().to_string()
    };
    let listen = format!("127.0.0.1:{port}");
    let start = async |key: Option<&str>| {
        let mut command = outlast(dir.path());
        command
            .args(["--config", "/dev/null"])
            .env("OUTLAST__SERVER__LISTEN", &listen);
        Binary::start_as(&mut command, dir.path(), key).await
    };
    let first = start(None).await;
    let key = std::fs::read_to_string(dir.path().join("local.key")).unwrap();
    let steps = task(json!([{"pause_ms": 1500, "text": "Here still."}]));
    let mut child = outlast(dir.path())
        .args(["run", &steps])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let id = session_of(&mut child).await;
    let begun = async || {
        let events = first.client.events(&id).await;
        (!of(&events, "span.model_request_start").is_empty()).then_some(())
    };
    until("the request to begin", begun).await;
    first.kill().await;
    let second = start(Some(key.trim())).await;
    let done = Output::of_child(child).await;
    assert_eq!(
        (done.code, done.out.trim()),
        (Some(0), "Here still."),
        "{done:?}"
    );
    assert!(second.stop().await.success());
}

/// Makes a task that may have other words around it.
fn fenced(steps: &Value) -> String {
    format!("```script\n{steps}\n```")
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_given_to_a_run_and_cleared_up_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let (one, two) = (dir.path().join("two words.csv"), dir.path().join("b"));
    std::fs::write(&one, "1,2\n").unwrap();
    std::fs::write(&two, b"\0\xff").unwrap();
    let given = |path: &Path| ["--file".to_owned(), path.display().to_string()];
    let mut arguments = [given(&one), given(&two)].concat();
    let look = "cd /mnt/session/uploads && cat 'two words.csv'; wc -c < b; echo x > b";
    arguments.push(fenced(&json!([bash(look), {"text": "{{results}}"}])));
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let done = run(dir.path(), &arguments).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.starts_with("1,2\n2\n"), "{done:?}");
    assert!(done.out.contains("Read-only file system"), "{done:?}");
    assert!(
        done.err.contains("/mnt/session/uploads/two words.csv"),
        "{done:?}"
    );
    let id = done.err.split("session  ").nth(1).unwrap();
    let id = id.lines().next().unwrap().to_owned();
    let events = server.client.events(&id).await;
    let told = of(&events, "user.message")[0]["content"][1]["text"]
        .as_str()
        .unwrap();
    assert_eq!(
        told,
        "Files for this task, read-only:\n/mnt/session/uploads/two words.csv (4 bytes)\n\
         /mnt/session/uploads/b (2 bytes)"
    );
    // Only the session's own copies are left.
    let scopes = async || {
        let files = server.client.list("/v1/files", &[], 100).await.unwrap();
        files
            .iter()
            .map(|file| file["scope"]["id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(scopes().await, [id.as_str(), id.as_str()]);
    // The same name again takes the place of the first.
    std::fs::write(&one, "3,4\n").unwrap();
    let cat = bash("cat '/mnt/session/uploads/two words.csv'");
    let again = fenced(&json!([cat, {"text": "{{results}}"}]));
    let path = one.display().to_string();
    let done = run(dir.path(), &["--session", &id, "--file", &path, &again]).await;
    assert_eq!((done.code, done.out.trim()), (Some(0), "3,4"), "{done:?}");
    assert_eq!(scopes().await.len(), 2);
    // What does not begin leaves nothing: no upload, no mount.
    let gone = dir.path().join("gone").display().to_string();
    let done = run(dir.path(), &["--file", &path, "--file", &gone, "x"]).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.err.contains("No such file"), "{done:?}");
    let done = run(dir.path(), &["--file", &path, "--file", &path, "x"]).await;
    assert_eq!(done.code, Some(2), "{done:?}");
    assert_eq!(scopes().await.len(), 2);
    let sessions = server.client.list("/v1/sessions", &[], 10).await.unwrap();
    assert_eq!(sessions.len(), 1);
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_for_a_session_that_takes_no_message_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let id = server.client.session_with("scripted", asking()).await;
    let call = crate::support::script(json!([bash("true"), {"text": "ok"}]));
    server.client.send(&id, &[call]).await;
    server.client.idle(&id, 1).await;
    let file = dir.path().join("a");
    std::fs::write(&file, "a").unwrap();
    let file = file.display().to_string();
    let done = run(dir.path(), &["--session", &id, "--file", &file, "more"]).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.err.contains("says what it waits for"), "{done:?}");
    let path = format!("/v1/sessions/{id}/resources");
    for path in ["/v1/files", &path] {
        assert_eq!(
            server.client.list(path, &[], 10).await.unwrap(),
            [Value::Null; 0]
        );
    }
    assert!(server.stop().await.success());
}
