//! Logs that are proven whole, or not, without asking the server.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Binary, Does as _, Output, bash, message, outlast, script};

/// Runs the binary on a data directory.
async fn run(dir: &Path, arguments: &[&str]) -> Output {
    Output::of(outlast(dir).args(arguments)).await
}

/// Plays a turn with calls, and sends a message that is large.
async fn lived(server: &Binary) -> String {
    let id = server.client.session("scripted").await;
    let steps = json!([bash("echo one > /workspace/a; cat /workspace/a"), {"text": "done"}]);
    server.client.send(&id, &[script(steps)]).await;
    server.client.idle(&id, 1).await;
    let large = json!({"script": [{"text": "again"}], "pad": "x".repeat(200_000)});
    server
        .client
        .send(&id, &[message(&large.to_string())])
        .await;
    server.client.idle(&id, 2).await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_verified_beside_the_server_and_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let id = lived(&server).await;
    let verified = run(dir.path(), &["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let whole = verified.out.starts_with(&id) && verified.out.contains("whole, ");
    assert!(whole, "{verified:?}");
    let heads = run(dir.path(), &["heads"]).await;
    let head: Value = serde_json::from_str(heads.out.trim()).unwrap();
    assert_eq!(head["session"], id.as_str());
    assert!(server.stop().await.success());

    let kept = dir.path().join("heads");
    let other = heads.out.replace(&id, "sesn_010000000000000000000001");
    fs::write(&kept, format!("{}{other}", heads.out)).unwrap();
    let kept = kept.to_str().unwrap();
    let verified = run(dir.path(), &["verify", &id, "--heads", kept, "--json"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let found: Value = serde_json::from_str(verified.out.trim()).unwrap();
    assert_eq!(
        (&found["found"], &found["state_compared"]),
        (&json!("whole"), &json!(true))
    );
    // One that was noted and is not there is missed, though nobody named it.
    let missed = run(dir.path(), &["verify", "--heads", kept]).await;
    assert_eq!(missed.code, Some(1), "{missed:?}");
    assert!(
        missed.out.contains("gone") && missed.err.contains("1 of 2"),
        "{missed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_was_changed_is_named_by_its_position() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let id = lived(&server).await;
    assert!(server.stop().await.success());
    let folder = dir.path().join("blobs/sessions").join(&id);
    let mut files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let blob = files.find(|path| path.is_file()).unwrap();
    let text = fs::read_to_string(&blob).unwrap();
    fs::write(&blob, text.replace("xxxx", "xxxy")).unwrap();
    let broken = run(dir.path(), &["verify", "--json"]).await;
    assert_eq!(broken.code, Some(1), "{broken:?}");
    let found: Value = serde_json::from_str(broken.out.trim()).unwrap();
    assert_eq!(
        (&found["found"], &found["damage"]),
        (&json!("broken"), &json!("body"))
    );
    assert!(found["position"].as_u64().unwrap() > 1, "{found}");
    let nowhere = run(&dir.path().join("none"), &["verify"]).await;
    assert_eq!(nowhere.code, Some(1), "{nowhere:?}");
    assert!(nowhere.err.contains("there is no database"), "{nowhere:?}");
}
