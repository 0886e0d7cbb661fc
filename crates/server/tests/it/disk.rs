use std::{fs, io::Write as _, path::Path, process::Command};

use serde_json::{Value, json};

use crate::support::{Does as _, TestServer, message, of, until};

/// A small disk of its own; taken away again on drop.
struct Disk<'d>(&'d Path);

impl<'d> Disk<'d> {
    fn mount(dir: &'d Path) -> Self {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m,mode=0700", "outlast-test"])
            .arg(dir)
            .status();
        assert!(
            mounted.unwrap().success(),
            "this test needs root to mount a small disk"
        );
        Self(dir)
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let gone = Command::new("umount").arg("-l").arg(self.0).status();
        assert!(gone.unwrap().success());
    }
}

/// Fills a disk to its last byte.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    let mut size = 1 << 20;
    while size > 0 {
        match file.write(&vec![b'x'; size]) {
            Ok(written) if written > 0 => {}
            Ok(_) | Err(_) => size /= 2,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_what_is_new_and_loses_nothing() {
    let outer = tempfile::tempdir().unwrap();
    let _disk = Disk::mount(outer.path());
    let dir = tempfile::tempdir_in(outer.path()).unwrap();
    let server = TestServer::start_in(dir, |_| {}).await;
    let session = server.client().session("scripted").await;
    server.play(&session, &[message("before")], 1).await;
    let ballast = outer.path().join("ballast");
    fill(&ballast);
    let path = format!("/v1/sessions/{session}/events");
    // Small appends may still fit into what the database has; a large one does not.
    let large = "y".repeat(1 << 20);
    let refused = until("the disk to be full", async || {
        let body = json!({"events": [message(&format!("refused {large}"))]});
        server.client().post(&path, &body).await.err()
    })
    .await;
    assert_eq!(refused.status(), Some(503), "{refused}");
    // What was accepted can still be read.
    let kept = server.client().events(&session).await;
    assert!(
        of(&kept, "user.message")
            .iter()
            .any(|event| event["content"][0]["text"] == "before")
    );
    fs::remove_file(&ballast).unwrap();
    until("the server to take events again", async || {
        let body = json!({"events": [message("after")]});
        server.client().post(&path, &body).await.ok()
    })
    .await;
    until("the message to be taken in", async || {
        let events = server.client().events(&session).await;
        let taken = |event: &&Value| {
            event["content"][0]["text"] == "after" && !event["processed_at"].is_null()
        };
        of(&events, "user.message").iter().any(taken).then_some(())
    })
    .await;
    let events = server.client().events(&session).await;
    for event in &kept {
        assert!(
            events.iter().any(|other| other["id"] == event["id"]),
            "{event} is lost"
        );
    }
    drop(server);
}
