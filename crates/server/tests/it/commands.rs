use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Stdio};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use crate::support::{Binary, Does as _, Output, message, of, outlast, script, signal};

#[tokio::test(flavor = "multi_thread")]
async fn sessions_can_be_looked_at_and_taken_part_in() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let id = server.client.session("scripted").await;
    let sessions = async |arguments: &[&str]| {
        Output::of(outlast(dir.path()).arg("sessions").args(arguments)).await
    };
    let sent = sessions(&[
        "send",
        &id,
        &json!({"script": [{"text": "\u{1b}[2JHi."}]}).to_string(),
    ])
    .await;
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(
        sent.out.starts_with("sevt_") && sent.out.trim().ends_with("user.message"),
        "{sent:?}"
    );
    server.client.idle(&id, 1).await;
    let list = sessions(&["list"]).await;
    let row = list.out.lines().nth(1).unwrap();
    assert!(
        row.starts_with(&id) && row.contains("idle") && row.contains("scripted"),
        "{list:?}"
    );
    let json_list = sessions(&["list", "--json"]).await;
    let session: Value = serde_json::from_str(json_list.out.trim()).unwrap();
    assert_eq!(session["id"], id.as_str());
    let show = sessions(&["show", &id]).await;
    for part in [id.as_str(), "idle", "end_turn", "tokens in"] {
        assert!(show.out.contains(part), "{part:?} is not in {show:?}");
    }
    // What an agent says does not reach the terminal's controls.
    let events = sessions(&["events", &id]).await;
    assert!(
        events.out.contains("Hi.") && !events.out.contains('\u{1b}'),
        "{events:?}"
    );
    let events = sessions(&["events", &id, "--json", "--type", "agent.message"]).await;
    let event: Value = serde_json::from_str(events.out.trim()).unwrap();
    assert_eq!(event["content"][0]["text"], "\u{1b}[2JHi.");
    assert_eq!(sessions(&["interrupt", &id]).await.code, Some(0));
    assert_eq!(sessions(&["archive", &id]).await.code, Some(0));
    let list = sessions(&["list"]).await;
    assert_eq!(list.out.lines().count(), 1, "{list:?}");
    let list = sessions(&["list", "--all"]).await;
    assert!(list.out.contains("archived"), "{list:?}");
    let refused = sessions(&["delete", &id]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(sessions(&["delete", &id, "--yes"]).await.code, Some(0));
    let missing = sessions(&["show", &id]).await;
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(
        missing.err.contains("not found") && missing.err.contains("hint:"),
        "{missing:?}"
    );
    let nonsense = sessions(&["show", "../agents"]).await;
    assert_eq!(nonsense.code, Some(2), "{nonsense:?}");
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_session_is_stopped_before_it_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let id = server.client.session("scripted").await;
    server
        .client
        .send(&id, &[script(json!([{"pause_ms": 600_000}]))])
        .await;
    let refused = Output::of(outlast(dir.path()).args(["sessions", "delete", &id, "--yes"])).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("sessions interrupt"), "{refused:?}");
    let stopped = Output::of(outlast(dir.path()).args(["sessions", "interrupt", &id])).await;
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    server.client.idle(&id, 1).await;
    let deleted = Output::of(outlast(dir.path()).args(["sessions", "delete", &id, "--yes"])).await;
    assert_eq!(deleted.code, Some(0), "{deleted:?}");
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_shows_what_was_and_what_comes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let id = server.client.session("scripted").await;
    server.client.send(&id, &[message("first")]).await;
    server.client.idle(&id, 1).await;
    let mut command = outlast(dir.path());
    let mut child = command
        .args(["sessions", "tail", &id, "--after", "0", "--json"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || -> Value {
        serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap()
    };
    let mut seen = Vec::new();
    while of(&seen, "session.status_idle").is_empty() {
        seen.push(next().await);
    }
    server.client.send(&id, &[message("second")]).await;
    while of(&seen, "session.status_idle").len() < 2 {
        seen.push(next().await);
    }
    let texts = of(&seen, "user.message");
    assert!(
        texts
            .iter()
            .any(|event| event["content"][0]["text"] == "second")
    );
    signal(child.id().unwrap(), "INT").await;
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_key_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let mut command = outlast(dir.path());
    command
        .env("OUTLAST_API_KEY", "0123456789abcdef")
        .args(["sessions", "list"]);
    let refused = Output::of(&mut command).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("local.key"), "{refused:?}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn nobody_there_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let refused = Output::of(outlast(dir.path()).args(["sessions", "list"])).await;
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("outlast serve"), "{refused:?}");
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = outlast(dir.path());
    let mut child = command
        .args(["config", "print", "--defaults"])
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let done = Output::of_child(child).await;
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
}

#[tokio::test]
async fn help_and_version_are_results() {
    let dir = tempfile::tempdir().unwrap();
    let help = Output::of(outlast(dir.path()).arg("--help")).await;
    assert_eq!(help.code, Some(0));
    assert!(
        help.out.contains("Exit codes") && help.err.is_empty(),
        "{help:?}"
    );
    let version = Output::of(outlast(dir.path()).arg("version")).await;
    assert_eq!(
        version.out,
        format!("outlast {}\n", env!("CARGO_PKG_VERSION"))
    );
    let nothing = Output::of(&mut outlast(dir.path())).await;
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scripted_model_can_be_served_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = outlast(dir.path());
    command
        .args(["scripted-model", "--listen", "127.0.0.1:0"])
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let url = line
        .split_whitespace()
        .find(|word| word.starts_with("http://"))
        .unwrap();
    let body = json!({"model": "any", "max_tokens": 100,
        "messages": [{"role": "user", "content": json!({"script": [{"text": "Hi."}]}).to_string()}]});
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = http.post(format!("{url}/v1/messages")).json(&body);
    let answer = answer
        .header("anthropic-version", "2023-06-01")
        .send()
        .await
        .unwrap();
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["content"][0]["text"], "Hi.", "{answer}");
    signal(child.id().unwrap(), "TERM").await;
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
}

/// Makes a command of the binary for an ordinary user.
fn as_nobody(dir: &Path) -> Command {
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return outlast(dir);
    }
    // The folder of the binary may be closed to others.
    let copy = dir.join("outlast");
    fs::copy(env!("CARGO_BIN_EXE_outlast"), &copy).unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(copy);
    command.uid(NOBODY).gid(NOBODY).env_clear();
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_without_a_data_directory_says_what_to_set_and_tries_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let reason = format!(
        "nothing can be tried in {}: Permission denied",
        closed.display()
    );
    for (home, words) in [
        (Some(&closed), reason.as_str()),
        (
            None,
            "neither XDG_DATA_HOME nor HOME says where data is kept",
        ),
    ] {
        let mut command = as_nobody(dir.path());
        command.env_remove("OUTLAST_DATA_DIR").env_remove("HOME");
        if let Some(home) = home {
            command.env("HOME", home);
        }
        let done = Output::of(
            command
                .arg("check")
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let done = done.await;
        assert_eq!(done.code, Some(1), "{done:?}");
        let elsewhere = "all else was tried in /tmp";
        for part in [
            words,
            "MISSING  data directory",
            "--data-dir DIR",
            elsewhere,
            "user namespaces",
        ] {
            assert!(done.out.contains(part), "{part}: {done:?}");
        }
    }
}
