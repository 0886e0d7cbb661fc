//! What a session keeps when the folder of its sandboxes is lost: its checkpoint.

use std::path::Path;

use outlast_blobs::{Blobs as _, Key, S3, s3};
use serde_json::{Value, json};

use crate::support::{
    Binary, Does as _, Output, bash, host, leftovers, of, outlast, said, script, until,
};

/// Starts a server that takes checkpoints a second after a turn, or never.
async fn start(dir: &Path, key: Option<&str>, checkpoints: bool) -> Binary {
    let mut command = Binary::command(dir);
    let seconds = if checkpoints { "1" } else { "0" };
    command.env("OUTLAST__HANDS__CHECKPOINT_IDLE_SECONDS", seconds);
    Binary::start_as(&mut command, dir, key).await
}

/// Kills a server, and loses what it had beside its data.
async fn lost(server: Binary, dir: &Path) {
    server.kill().await;
    // Until it is gone it may still write there.
    host::end(dir).await;
    assert!(leftovers::processes(dir).is_empty());
    std::fs::remove_dir_all(dir.join("hands")).unwrap();
}

/// Waits until the log names a checkpoint: one that is stored only goes with its server.
async fn saved(server: &Binary, session: &str) {
    saved_times(server, session, 1).await;
}

/// Waits until the log has named so many.
async fn saved_times(server: &Binary, session: &str, count: usize) {
    until("a checkpoint", async || {
        let path = format!("/outlast/v1/sessions/{session}/outline");
        let all = [("limit", "1000")];
        let outline = server.client.get(&path, &all).await.unwrap();
        let records = outline["records"].as_array().unwrap();
        let kinds = records.iter().map(|record| &record["kind"]);
        let named = kinds.filter(|kind| *kind == "x.checkpointed").count();
        (named >= count).then_some(())
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
    saved(&first, &session).await;
    assert!(first.stop().await.success());
    let next = start(dir.path(), key, false).await;
    turn(&next, &session, "echo late >> file; rmdir d/e", 2).await;
    lost(next, dir.path()).await;

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

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_rots_gives_way_to_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let first = start(dir.path(), None, true).await;
    let key = std::fs::read_to_string(dir.path().join("local.key")).unwrap();
    let session = first.client.session("scripted").await;
    turn(&first, &session, "echo one > file", 1).await;
    saved_times(&first, &session, 1).await;
    let [before] = stored(dir.path(), &session).try_into().unwrap();
    turn(&first, &session, "echo two > file", 2).await;
    saved_times(&first, &session, 2).await;
    let mut both = stored(dir.path(), &session);
    assert_eq!(both.len(), 2, "{both:?}");
    both.retain(|name| *name != before);
    let newest = dir.path().join("blobs/sessions").join(&session);
    let newest = newest.join("checkpoints").join(&both[0]);
    let mut bytes = std::fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&newest, bytes).unwrap();
    lost(first, dir.path()).await;

    let next = start(dir.path(), Some(key.trim()), true).await;
    let events = turn(&next, &session, "cat file", 3).await;
    let text = said(of(&events, "agent.message").last().unwrap());
    assert!(text.contains("one") && !text.contains("two"), "{text}");
    let told = [
        "the checkpoint of ",
        " could not be read; its files are as they were at ",
    ];
    assert!(told.iter().all(|part| text.contains(part)), "{text}");
    let doctor = Output::of(outlast(dir.path()).arg("doctor").arg(&session)).await;
    assert!(doctor.out.contains("checkpoint_unreadable"), "{doctor:?}");
    // The next one takes the place of the one that cannot be read.
    saved_times(&next, &session, 3).await;
    until("the spoilt one to go", async || {
        let left = stored(dir.path(), &session);
        (left.len() == 2 && !left.contains(&both[0])).then_some(())
    })
    .await;
    assert!(next.stop().await.success());
}

/// Spoils the disks of all sandboxes in a way.
fn spoil(dir: &Path, way: fn(&std::fs::File)) {
    let mut images = leftovers::files(&dir.join("hands"));
    images.retain(|path| path.ends_with("tree/disk.img"));
    assert!(!images.is_empty(), "this needs disks of their own");
    for image in images {
        way(&std::fs::File::options().write(true).open(image).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_beyond_repair_is_lost_and_not_asked_for_again() {
    let ways: [fn(&std::fs::File); 2] = [
        |image| image.set_len(0).unwrap(),
        |image| {
            let length = image.metadata().unwrap().len();
            image.set_len(0).unwrap();
            image.set_len(length).unwrap();
        },
    ];
    let dir = tempfile::tempdir().unwrap();
    let first = start(dir.path(), None, true).await;
    let key = std::fs::read_to_string(dir.path().join("local.key")).unwrap();
    let session = first.client.session("scripted").await;
    turn(&first, &session, "echo kept > file", 1).await;
    saved(&first, &session).await;
    assert!(first.stop().await.success());
    host::end(dir.path()).await;
    let mut done = 1;
    for way in ways {
        spoil(dir.path(), way);
        let server = start(dir.path(), Some(key.trim()), true).await;
        let events = turn(&server, &session, "cat file", done + 1).await;
        let text = said(of(&events, "agent.message").last().unwrap());
        assert!(text.contains("beyond repair"), "{text}");
        let events = turn(&server, &session, "cat file", done + 2).await;
        let text = said(of(&events, "agent.message").last().unwrap());
        let told = text.contains("what was written after that is lost");
        assert!(text.contains("kept") && told, "{text}");
        done += 2;
        assert!(server.stop().await.success());
        host::end(dir.path()).await;
    }
}

/// The whole machine is lost: but for the log nothing is left, and the files are in the bucket.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: scripts/test s3"]
async fn s3_has_what_the_machine_lost() {
    let secret = "canary-71d0c2";
    let endpoint = std::env::var("OUTLAST_TEST_S3").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let start = async |key: Option<&str>| {
        let mut command = Binary::command(dir.path());
        command
            .env("OUTLAST__HANDS__CHECKPOINT_IDLE_SECONDS", "1")
            .env("OUTLAST__BLOBS__URL", "s3://outlast-test/server")
            .env("OUTLAST__BLOBS__ENDPOINT", &endpoint)
            .env("OUTLAST__BLOBS__ACCESS_KEY_ID", "test")
            .env("OUTLAST__BLOBS__SECRET_ACCESS_KEY", secret);
        Binary::start_as(&mut command, dir.path(), key).await
    };
    let first = start(None).await;
    let key = std::fs::read_to_string(dir.path().join("local.key")).unwrap();
    let session = first.client.session("scripted").await;
    turn(
        &first,
        &session,
        "seq 10 > file; env; cat /proc/1/environ",
        1,
    )
    .await;
    let bucket = S3::new(&s3::Options {
        url: "s3://outlast-test/server".to_owned(),
        endpoint: Some(endpoint.clone()),
        region: None,
        access_key_id: Some("test".to_owned()),
        secret_access_key: Some(secret.into()),
        session_token: None,
    })
    .unwrap();
    let folder = Key::new(format!("sessions/{session}/checkpoints")).unwrap();
    let stored = async || bucket.list(&folder, None, 9).await.unwrap();
    saved(&first, &session).await;
    lost(first, dir.path()).await;
    assert!(!dir.path().join("blobs").exists());
    let second = start(Some(key.trim())).await;
    let events = turn(&second, &session, "md5sum < file", 2).await;
    let text = said(of(&events, "agent.message").last().unwrap());
    assert!(text.contains("3b0332e02daabf31651a5a0d81ba830a"), "{text}");
    assert!(!format!("{events:?}").contains(secret));
    let path = format!("/v1/sessions/{session}");
    second.client.delete(&path).await.unwrap();
    until("the checkpoints to go", async || {
        stored().await.is_empty().then_some(())
    })
    .await;
    assert!(second.stop().await.success());
}
