//! What a session keeps when the folder of its sandboxes is lost: its checkpoint.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Binary, Does as _, bash, leftovers, of, said, script, until};

/// Starts a server that takes checkpoints a second after a turn, or never.
async fn start(dir: &Path, key: Option<&str>, checkpoints: bool) -> Binary {
    let mut command = Binary::command(dir);
    let seconds = if checkpoints { "1" } else { "0" };
    command.env("OUTLAST__HANDS__CHECKPOINT_IDLE_SECONDS", seconds);
    Binary::start_as(&mut command, dir, key).await
}

async fn killed(server: Binary, dir: &Path) {
    server.kill().await;
    until("sandboxes to die with their server", async || {
        leftovers::processes(dir).is_empty().then_some(())
    })
    .await;
}

/// The names of the checkpoints of a session.
fn stored(dir: &Path, session: &str) -> Vec<String> {
    let folder = dir.join("blobs/sessions").join(session).join("checkpoints");
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

async fn turn(server: &Binary, session: &str, command: &str, turn: usize) -> Vec<Value> {
    let steps = json!([bash(command), {"text": "{{results}}"}]);
    server.client.send(session, &[script(steps)]).await;
    server.client.idle(session, turn).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_the_checkpoint_come_back_and_the_model_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let first = start(dir.path(), None, true).await;
    let key = std::fs::read_to_string(dir.path().join("local.key")).unwrap();
    let key = Some(key.trim());
    let session = first.client.session("scripted").await;
    turn(&first, &session, "echo kept > file; mkdir -p d/e", 1).await;
    let stored = || stored(dir.path(), &session);
    until("a checkpoint", async || stored().pop()).await;
    assert!(first.stop().await.success());
    let next = start(dir.path(), key, false).await;
    turn(&next, &session, "echo late >> file; rmdir d/e", 2).await;
    killed(next, dir.path()).await;
    std::fs::remove_dir_all(dir.path().join("hands")).unwrap();

    let second = start(dir.path(), key, true).await;
    let events = turn(&second, &session, "cat file; ls d", 3).await;
    let text = said(of(&events, "agent.message").last().unwrap());
    assert!(text.contains("kept\ne") && !text.contains("late"), "{text}");
    assert!(
        text.contains("what was written after that is lost"),
        "{text}"
    );
    let events = turn(&second, &session, "cat file", 4).await;
    let text = said(of(&events, "agent.message").last().unwrap());
    assert_eq!(text.trim(), "kept", "it is told once");
    let path = format!("/v1/sessions/{session}");
    second.client.delete(&path).await.unwrap();
    until("the checkpoints to go", async || {
        stored().is_empty().then_some(())
    })
    .await;
    assert!(second.stop().await.success());
}
