//! What an operator is told at 3 a.m., and that it holds nothing of users.

use std::{fs, io::Read as _, path::Path};

use serde_json::{Value, json};

use crate::support::{Binary, Does as _, Output, bash, outlast, script, until};

/// Stands in everything that a user writes here.
const CANARY: &str = "canary-90ab3c";

/// Returns the names and texts of a bundle's files.
fn unpacked(path: &Path) -> Vec<(String, String)> {
    let mut archive =
        tar::Archive::new(flate2::read::GzDecoder::new(fs::File::open(path).unwrap()));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name, text)
    });
    entries.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_told_apart_by_who_has_to_act() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let id = server.client.session("scripted").await;
    let doctor = async |arguments: &[&str]| {
        let output = Output::of(outlast(dir.path()).arg("doctor").args(arguments)).await;
        let said = format!("{}{}", output.out, output.err);
        assert!(!said.contains(CANARY), "{said}");
        output
    };
    let rests = doctor(&[&id]).await;
    assert_eq!(rests.code, Some(0), "{rests:?}");
    assert!(rests.out.contains("a client's next input"), "{rests:?}");

    let steps = json!([
        bash(&format!("echo {CANARY}; sleep 600")),
        {"text": CANARY},
    ]);
    server.client.send(&id, &[script(steps)]).await;
    let running = until("the call runs", async || {
        let found = doctor(&[&id]).await;
        found.out.contains("was handed to").then_some(found)
    })
    .await;
    for part in ["is worked on here", "waits for brain", "hand ", "begun"] {
        assert!(running.out.contains(part), "{part:?}: {running:?}");
    }
    let all = doctor(&[]).await;
    assert!(
        all.out.contains(&id) && all.out.contains("1 of "),
        "{all:?}"
    );
    let found: Value = serde_json::from_str(&doctor(&[&id, "--json"]).await.out).unwrap();
    assert_eq!(found["type"], "session_diagnosis");
    let woken = doctor(&[&id, "--wake"]).await;
    assert_eq!(woken.code, Some(0), "{woken:?}");

    let bundle = dir.path().join("bundle.tar.gz");
    is_packed(dir.path(), &id, &bundle).await;
    let interrupt = json!({"type": "user.interrupt"});
    server.client.send(&id, &[interrupt]).await;
    server.client.idle(&id, 1).await;
    assert!(server.stop().await.success());
    let nobody = doctor(&[]).await;
    assert_eq!(nobody.code, Some(3), "{nobody:?}");
    fs::remove_file(&bundle).unwrap();
    let packed = pack(dir.path(), &id, &bundle).await;
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let files = unpacked(&bundle);
    assert!(
        files
            .iter()
            .any(|(name, _)| name.ends_with("unreachable.txt"))
    );
}

/// Packs a bundle.
async fn pack(dir: &Path, id: &str, bundle: &Path) -> Output {
    let mut command = outlast(dir);
    command.args(["support-bundle", id, "--output"]).arg(bundle);
    Output::of(&mut command).await
}

/// Packs a bundle while a call runs, and looks at all that is in it.
async fn is_packed(dir: &Path, id: &str, bundle: &Path) {
    let packed = pack(dir, id, bundle).await;
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let files = unpacked(bundle);
    for name in [
        "version.txt",
        "config.toml",
        "host.json",
        "metrics.txt",
        "server.json",
    ] {
        let name = format!("outlast-support/{name}");
        assert!(
            files.iter().any(|(known, _)| *known == name),
            "{name}: {files:?}"
        );
    }
    let outline = format!("outlast-support/sessions/{id}-outline.json");
    let (_, text) = files.iter().find(|(name, _)| *name == outline).unwrap();
    assert!(text.contains("agent.tool_use"), "{text}");
    let key = fs::read_to_string(dir.join("local.key")).unwrap();
    for (name, text) in &files {
        assert!(
            !text.contains(CANARY) && !text.contains(key.trim()),
            "{name}: {text}"
        );
    }
    let again = pack(dir, id, bundle).await;
    assert_eq!(again.code, Some(1), "nothing is written over: {again:?}");
    assert_eq!(unpacked(bundle).len(), files.len());
}
