//! A disk that is full: what clients and operators are told, each in words of its own.

use std::time::Duration;

use outlast_store::Away;
use serde_json::json;

use crate::{
    bench::{Bench, Reply},
    files::{form, posted},
};

/// Names the host, as errors of a disk may.
const REASON: &str = "/var/lib/canary-7c: No space left on device";

/// Asserts that a reply says that the disk is full, when to come again, and nothing of the host.
#[track_caller]
fn is_full(reply: &Reply) {
    assert_eq!(reply.status.as_u16(), 503, "{}", reply.text);
    let error = &reply.json()["error"];
    assert_eq!(error["type"], "api_error");
    assert_eq!(error["details"]["error_code"], "disk_full");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the server's disk is full"), "{message}");
    assert!(!reply.text.contains("canary"), "{}", reply.text);
    assert!(reply.headers.contains_key("retry-after"));
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_has_a_name_of_its_own_until_there_is_room() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let events = format!("/v1/sessions/{session}/events");
    let message = json!({"type": "user.message", "content": [{"type": "text", "text": "x"}]});
    let body = json!({"events": [message]});
    assert_eq!(bench.get("/readyz").await.status, 200);
    bench.store.lacks(Some(Away::full(REASON)));
    // What was found a moment ago stands for a second, however often it is asked for.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        bench.get("/readyz").await;
    }
    is_full(&bench.get("/readyz").await);
    is_full(&bench.post(&events, body.clone()).await);
    is_full(&bench.ask(posted(form("", "", b"x", &[]), &[])).await);

    let diagnosis = format!("/outlast/v1/sessions/{session}/diagnosis");
    let found = bench.get(&diagnosis).await.ok();
    assert_eq!(found["troubles"][0]["kind"], "disk_full", "{found}");
    let verdict = found["verdict"].as_str().unwrap();
    assert!(
        verdict.contains("the server's disk is full since"),
        "{verdict}"
    );
    let server = bench.get("/outlast/v1/diagnosis").await.ok();
    assert_eq!(server["store_failure"]["kind"], "disk_full", "{server}");
    assert!(server["store_failure"]["since"].is_string(), "{server}");

    bench.store.lacks(None);
    bench.post(&events, body).await.ok();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.get("/readyz").await.status, 200);
    let server = bench.get("/outlast/v1/diagnosis").await.ok();
    assert_eq!(server["store_failure"]["since"], json!(null), "{server}");
    let found = bench.get(&diagnosis).await.ok();
    let verdict = found["verdict"].as_str().unwrap();
    assert!(!verdict.contains("disk"), "{verdict}");
}
