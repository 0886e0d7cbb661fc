//! A server that is killed in the middle of what it does with files: nothing half is left, and who
//! asks again is answered as if nothing had happened.

use std::{fs, path::Path, pin::pin, time::Duration};

use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::support::{Binary, Does as _, bash, leftovers, of, said, script, until};

/// How often each is killed.
const KILLS: u64 = 6;

/// Bytes of the files: enough to be hit in the middle.
const SIZE: usize = 12 << 20;

fn key(dir: &Path) -> String {
    let key = fs::read_to_string(dir.join("local.key")).unwrap();
    key.trim().to_owned()
}

fn content() -> Vec<u8> {
    let mut seed = 1_u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 56) as u8
    };
    (0..SIZE).map(|_| next()).collect()
}

/// Starts a server whose hands and tidy tasks are those of the one before.
async fn start(dir: &Path, key: &str) -> Binary {
    Binary::start(dir, Some(key)).await
}

/// Uploads bytes under a name, by a request that can be told again.
async fn upload(url: &str, key: &str, name: &str, content: &[u8]) -> Option<Value> {
    let head = format!(
        "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         content-type: application/octet-stream\r\n\r\n"
    );
    let body = [head.as_bytes(), content, b"\r\n--edge--\r\n"].concat();
    let sent = reqwest::Client::new()
        .post(format!("{url}/v1/files"))
        .bearer_auth(key)
        .header("idempotency-key", name)
        .header(CONTENT_TYPE, "multipart/form-data; boundary=edge")
        .body(body)
        .send()
        .await
        .ok()?;
    let text = sent.error_for_status().ok()?.text().await.ok()?;
    serde_json::from_str(&text).ok()
}

/// Waits until there are so many blobs of files, whole, and nothing that is written aside.
async fn only_blobs(dir: &Path, count: usize) {
    let blobs = dir.join("blobs");
    until("what was half written to go", async || {
        let files = leftovers::files(&blobs.join("files"));
        let aside = leftovers::files(&blobs.join(".stage"));
        (files.len() == count && aside.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_is_whole_or_not_there_and_asked_again_it_is_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut server = Binary::start(dir, None).await;
    let (key, content) = (key(dir), content());
    for round in 0..KILLS {
        let (url, name) = (server.url.clone(), format!("file-{round}"));
        let sending = upload(&url, &key, &name, &content);
        let killing = async {
            sleep(Duration::from_millis(10 + round * 37)).await;
            server.kill().await;
        };
        let (answer, ()) = tokio::join!(sending, killing);
        server = start(dir, &key).await;
        let again = upload(&server.url, &key, &name, &content).await.unwrap();
        if let Some(answer) = answer {
            assert_eq!(answer["id"], again["id"], "accepted twice");
        }
        assert_eq!(again["size_bytes"], SIZE);
    }
    let count = usize::try_from(KILLS).unwrap();
    let listed = server.client.list("/v1/files", &[], 1_000).await.unwrap();
    assert_eq!(listed.len(), count);
    only_blobs(dir, count).await;
    for path in leftovers::files(&dir.join("blobs/files")) {
        assert!(fs::read(path).unwrap() == content, "half a file");
    }
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mounted_file_is_whole_or_not_there_and_comes_at_last() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut server = Binary::start(dir, None).await;
    let (key, content) = (key(dir), content());
    let file = upload(&server.url, &key, "whole", &content).await.unwrap();
    let sum = blake3::hash(&content).to_hex().to_string();
    let session = server.client.session("scripted").await;
    let look = "for f in $(find /mnt/session/uploads -type f); do stat -c %s $f; done";
    for round in 0..KILLS {
        let steps = json!([bash(look), {"text": "{{results}}"}]);
        server.client.send(&session, &[script(steps)]).await;
        let turn = usize::try_from(2 * round + 1).unwrap();
        server.client.idle(&session, turn).await;
        let body =
            json!({"type": "file", "file_id": file["id"], "mount_path": format!("/in/{round}")});
        let path = format!("/v1/sessions/{session}/resources");
        let client = server.client.clone();
        // Kept until the server is dead, and not polled then: it would ask again for a minute.
        let mut asking = pin!(client.post(&path, &body));
        drop(timeout(Duration::from_millis(round * 17), &mut asking).await);
        server.kill().await;
        server = start(dir, &key).await;
        let listed = server.client.list(&path, &[], 100).await.unwrap();
        let named = |one: &&Value| {
            one["mount_path"]
                .as_str()
                .unwrap()
                .ends_with(&format!("/in/{round}"))
        };
        if listed.iter().find(named).is_none() {
            server.client.post(&path, &body).await.unwrap();
        }
        let steps = json!([bash(look), {"text": "{{results}}"}]);
        server.client.send(&session, &[script(steps)]).await;
        let events = server.client.idle(&session, turn + 1).await;
        let seen = said(of(&events, "agent.tool_result").last().unwrap()).to_owned();
        let sizes: Vec<_> = seen.lines().collect();
        let whole = vec![SIZE.to_string(); usize::try_from(round + 1).unwrap()];
        assert_eq!(sizes, whole, "a file is missing or half there");
    }
    let hand = &leftovers::hands(dir)[0];
    let copies: Vec<_> = leftovers::files(&dir.join("hands").join(hand))
        .into_iter()
        .filter(|path| fs::metadata(path).is_ok_and(|file| file.len() >= 1 << 20))
        .filter(|path| !path.ends_with("disk.img"))
        .collect();
    assert_eq!(copies.len(), usize::try_from(KILLS).unwrap(), "{copies:?}");
    for path in copies {
        let found = blake3::hash(&fs::read(path).unwrap()).to_hex().to_string();
        assert_eq!(found, sum);
    }
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_is_published_whole_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut server = Binary::start(dir, None).await;
    let key = key(dir);
    let session = server.client.session("scripted").await;
    for round in 0..KILLS {
        let make = format!(
            "head -c {SIZE} /dev/zero | tr '\\0' 'a' > /workspace/out && \
             mv /workspace/out /mnt/session/outputs/{round} && echo > made{round}"
        );
        let steps = json!([bash(&make), {"text": "end"}]);
        server.client.send(&session, &[script(steps)]).await;
        until("the output to be made", async || {
            leftovers::inside(dir, &format!("made{round}")).map(drop)
        })
        .await;
        sleep(Duration::from_millis(round * 19)).await;
        server.kill().await;
        server = start(dir, &key).await;
        let turn = usize::try_from(round + 1).unwrap();
        server.client.idle(&session, turn).await;
        let query = [("scope_id", session.as_str()), ("limit", "1000")];
        let listed = server
            .client
            .list("/v1/files", &query, 1_000)
            .await
            .unwrap();
        let mut found: Vec<_> = listed
            .iter()
            .map(|file| {
                (
                    file["filename"].as_str().unwrap().parse::<u64>().unwrap(),
                    file,
                )
            })
            .collect();
        found.sort_by_key(|(name, _)| *name);
        let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, (0..=round).collect::<Vec<_>>());
        assert!(found.iter().all(|(_, file)| file["size_bytes"] == SIZE));
    }
    only_blobs(dir, usize::try_from(KILLS).unwrap()).await;
    for path in leftovers::files(&dir.join("blobs/files")) {
        let bytes = fs::read(path).unwrap();
        assert!(bytes.len() == SIZE && bytes.iter().all(|byte| *byte == b'a'));
    }
    assert!(server.stop().await.success());
}
