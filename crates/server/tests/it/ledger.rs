//! Logs that are proven whole, or not, without asking the server.

use std::{fs, path::Path};

use outlast_testkit::postgres::{Cluster, Syncs};
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

#[tokio::test(flavor = "multi_thread")]
async fn a_session_moves_to_another_data_directory_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let id = lived(&server).await;
    let file = dir.path().join("sessions.jsonl");
    let file = file.to_str().unwrap();
    let exported = run(dir.path(), &["export", &id, "-o", file]).await;
    assert_eq!(exported.code, Some(0), "{exported:?}");
    assert!(
        exported.err.contains("no contents of files"),
        "{exported:?}"
    );
    let again = run(dir.path(), &["export", "--all", "-o", file]).await;
    assert_eq!(again.code, Some(1), "what is there is kept: {again:?}");
    // A directory that a server has takes nothing in.
    let held = run(dir.path(), &["import", file]).await;
    assert_eq!(held.code, Some(1), "{held:?}");
    let events = server.client.events(&id).await;
    let heads = run(dir.path(), &["heads"]).await;
    assert!(server.stop().await.success());

    let other = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(file).unwrap();
    let damaged = dir.path().join("damaged.jsonl");
    let cut = text.lines().take(5).collect::<Vec<_>>().join("\n");
    for wrong in [text.replace("done", "dome"), cut, String::new()] {
        fs::write(&damaged, wrong).unwrap();
        let refused = run(other.path(), &["import", damaged.to_str().unwrap()]).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(!other.path().join("outlast.db").exists(), "{refused:?}");
    }
    let imported = run(other.path(), &["import", file]).await;
    assert_eq!(imported.code, Some(0), "{imported:?}");
    assert!(imported.err.contains("is not here"), "{imported:?}");
    let twice = run(other.path(), &["import", file]).await;
    assert!(
        twice.code == Some(1) && twice.err.contains(&id),
        "{twice:?}"
    );
    let verified = run(other.path(), &["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert_eq!(run(other.path(), &["heads"]).await.out, heads.out);
    let server = Binary::start(other.path(), None).await;
    assert_eq!(server.client.events(&id).await, events);
    assert!(server.stop().await.success());
}

/// Runs the binary on a database.
async fn on(dir: &Path, cluster: &Cluster, arguments: &[&str]) -> Output {
    let mut command = outlast(dir);
    command.env("OUTLAST_DATABASE_URL", cluster.url("postgres"));
    Output::of(command.args(arguments)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_moves_into_a_postgres_and_out_of_it_as_it_is() {
    let [from, shared, back] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let cluster = Cluster::start(Syncs::None);
    let server = Binary::start(from.path(), None).await;
    let id = lived(&server).await;
    let events = server.client.events(&id).await;
    assert!(server.stop().await.success());
    let heads = run(from.path(), &["heads"]).await;
    let path = |name: &str| from.path().join(name).to_str().unwrap().to_owned();
    let (out, again) = (path("out.jsonl"), path("again.jsonl"));
    assert_eq!(
        run(from.path(), &["export", "--all", "-o", &out])
            .await
            .code,
        Some(0)
    );

    // What is not whole leaves no tables either.
    let text = fs::read_to_string(&out).unwrap();
    let damaged = path("damaged.jsonl");
    let cut = text.lines().take(5).collect::<Vec<_>>().join("\n");
    for wrong in [text.replace("done", "dome"), cut] {
        fs::write(&damaged, wrong).unwrap();
        let refused = on(shared.path(), &cluster, &["import", &damaged]).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let none = on(shared.path(), &cluster, &["verify"]).await;
        assert!(none.err.contains("outlast migrate"), "{none:?}");
    }
    let imported = on(shared.path(), &cluster, &["import", &out]).await;
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let twice = on(shared.path(), &cluster, &["import", &out]).await;
    assert!(
        twice.code == Some(1) && twice.err.contains(&id),
        "{twice:?}"
    );
    let verified = on(shared.path(), &cluster, &["verify"]).await;
    assert!(
        verified.code == Some(0) && verified.out.contains("whole, "),
        "{verified:?}"
    );
    assert_eq!(on(shared.path(), &cluster, &["heads"]).await.out, heads.out);

    let exported = on(shared.path(), &cluster, &["export", &id, "-o", &again]).await;
    assert_eq!(exported.code, Some(0), "{exported:?}");
    assert_eq!(fs::read_to_string(&again).unwrap(), text, "byte for byte");
    assert_eq!(run(back.path(), &["import", &again]).await.code, Some(0));
    assert_eq!(run(back.path(), &["heads"]).await.out, heads.out);
    let server = Binary::start(back.path(), None).await;
    assert_eq!(server.client.events(&id).await, events);
    assert!(server.stop().await.success());
}
