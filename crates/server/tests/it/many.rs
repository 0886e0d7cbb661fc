//! Many sessions come and go, and leave nothing behind.

use std::{collections::BTreeSet, fs, path::Path, sync::Mutex};

use futures::StreamExt as _;
use outlast_server::client::Client;
use serde_json::{Value, json};

use crate::support::{Binary, bash, host, leftovers, script, until};

/// Sessions that are created, used and deleted.
const SESSIONS: usize = 2_000;

/// Sessions that live at once.
const AT_ONCE: usize = 24;

/// Makes a session of these, has its hand write a file, and deletes it; notes the hands it saw.
async fn live(client: &Client, seen: &Mutex<BTreeSet<String>>, dir: &Path, of: &Value) {
    let steps =
        json!([bash("echo used > /workspace/file; cat /workspace/file"), {"text": "{{results}}"}]);
    let mut body = of.clone();
    body["initial_events"] = json!([script(steps)]);
    let made = client.post("/v1/sessions", &body).await.unwrap();
    let id = made["id"].as_str().unwrap();
    let path = format!("/v1/sessions/{id}");
    until("the turn to end", async || {
        let session = client.get(&path, &[]).await.unwrap();
        (session["status"] == "idle").then_some(())
    })
    .await;
    seen.lock().unwrap().extend(leftovers::hands(dir));
    client.delete(&path).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_sessions_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let client = &server.client;
    let agent = json!({"name": "tester", "model": "scripted", "tools": [{"type": "agent_toolset_20260401"}]});
    let agent = client.post("/v1/agents", &agent).await.unwrap();
    let place = json!({"name": "place"});
    let place = client.post("/v1/environments", &place).await.unwrap();
    let of = json!({"agent": agent["id"], "environment_id": place["id"]});
    let seen = Mutex::default();
    futures::stream::iter(0..SESSIONS)
        .for_each_concurrent(AT_ONCE, |_| live(client, &seen, dir.path(), &of))
        .await;

    let seen = seen.into_inner().unwrap();
    assert!(
        seen.len() >= SESSIONS,
        "every session had a hand of its own"
    );
    until("the folders of hands to go", async || {
        leftovers::hands(dir.path()).is_empty().then_some(())
    })
    .await;
    let groups = leftovers::all_groups();
    let left = |name: &&String| {
        groups
            .iter()
            .any(|group| group.to_string_lossy().contains(name.as_str()))
    };
    assert_eq!(
        seen.iter().filter(left).collect::<Vec<_>>(),
        Vec::<&String>::new()
    );
    until("the blobs to go", async || {
        let blobs = leftovers::files(&dir.path().join("blobs"));
        blobs.is_empty().then_some(())
    })
    .await;
    let all = [("include_archived", "true")];
    let sessions = client.list("/v1/sessions", &all, 10).await.unwrap();
    assert_eq!(sessions, Vec::<Value>::new());
    assert!(server.stop().await.success());
    host::end(dir.path()).await;
    assert_eq!(leftovers::mounts(dir.path()), Vec::<String>::new());
    let entries = fs::read_dir(dir.path().join("hands")).unwrap().count();
    assert!(entries <= 1, "only what all hands share may stay");
}
