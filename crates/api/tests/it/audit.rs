//! The audit log: every request that may change something, before it does.

use http::{Method, Request};
use outlast_protocol::audit::{Actor, Entry};
use outlast_store::Away;
use serde_json::{Value, json};

use crate::bench::{Bench, KEY, id, message, request};

const AUDIT: &str = "/outlast/v1/audit";

/// Lists entries, the oldest first.
async fn entries(bench: &Bench, query: &str) -> Vec<Value> {
    // Outcomes are noted by tasks of their own.
    tokio::task::yield_now().await;
    let listed = bench
        .get(&format!("{AUDIT}?order=asc&limit=1000{query}"))
        .await;
    listed.ok()["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn every_change_is_there_with_what_came_of_it() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    bench.say(&session, "a secret word").await;
    bench.get("/v1/sessions").await.ok();
    bench
        .delete("/v1/files/file_010000000000000000000001")
        .await
        .refused(404);
    bench
        .post("/v1/agents", json!({ "name": 7 }))
        .await
        .refused(400);
    let nowhere = bench.post("/v1/nowhere", json!({})).await;
    nowhere.refused(404);
    let found = entries(&bench, "").await;
    let shown: Vec<_> = found
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or("-").to_owned();
            let kind = text("subject_id");
            let kind = kind.split("01").next().unwrap().to_owned();
            (
                text("action"),
                kind,
                text("outcome"),
                entry["status"].as_u64(),
            )
        })
        .collect();
    let expected = [
        ("POST /v1/agents", "agent_", "done", 200),
        ("POST /v1/environments", "env_", "done", 200),
        ("POST /v1/sessions", "sesn_", "done", 200),
        (
            "POST /v1/sessions/{session_id}/events",
            "sesn_",
            "done",
            200,
        ),
        ("DELETE /v1/files/{file_id}", "file_", "refused", 404),
        ("POST /v1/agents", "-", "refused", 400),
        ("POST unmatched", "-", "refused", 404),
    ];
    let expected = expected.map(|(action, kind, outcome, status)| {
        let words = [action, kind, outcome].map(str::to_owned);
        let [action, kind, outcome] = words;
        (action, kind, outcome, Some(status))
    });
    assert_eq!(shown, expected);
    let text = serde_json::to_string(&found).unwrap();
    assert!(
        !text.contains("secret word") && !text.contains(KEY),
        "{text}"
    );
    assert!(found.iter().all(|entry| {
        entry["request_id"].as_str().unwrap().starts_with("req_01")
            && entry["actor"].as_str().unwrap().starts_with("apikey_01")
    }));
}

#[tokio::test]
async fn entries_are_found_by_who_what_and_when() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    bench.clock.advance(std::time::Duration::from_secs(1));
    let before = bench.kernel.now();
    bench.clock.advance(std::time::Duration::from_secs(1));
    let body = json!({ "name": "other", "scope": "read-write" });
    let key = bench.post("/outlast/v1/keys", body).await.ok();
    let by_other = Request::post(format!("/v1/sessions/{session}/events"))
        .header("x-api-key", key["key"].as_str().unwrap())
        .body(json!({ "events": [message("hi")] }).to_string().into())
        .unwrap();
    bench.ask(by_other).await.ok();
    let count = async |query: String| entries(&bench, &query).await.len();
    assert_eq!(count(format!("&actor={}", id(&key))).await, 1);
    assert_eq!(count(format!("&subject_id={session}")).await, 2);
    assert_eq!(count(format!("&subject_id={}", id(&key))).await, 1);
    assert_eq!(count("&action=POST%20/outlast/v1/keys".to_owned()).await, 1);
    assert_eq!(count("&action=POST%20/v1/".to_owned()).await, 4);
    assert_eq!(count(format!("&at%5Bgte%5D={before}")).await, 2);
    assert_eq!(count(format!("&at%5Blte%5D={before}")).await, 3);
    for wrong in [
        "&at[gt]=2026-01-01T00:00:00Z",
        "&who=me",
        "&order=up",
        "&page=x",
    ] {
        bench
            .get(&format!("{AUDIT}?limit=5{wrong}"))
            .await
            .refused(400);
    }
}

#[tokio::test]
async fn lists_of_entries_have_pages_both_ways() {
    let bench = Bench::new().await;
    for _ in 0..5 {
        bench
            .post("/v1/agents", json!({ "name": "a", "model": "full" }))
            .await
            .ok();
    }
    for order in ["asc", "desc"] {
        let mut found: Vec<u64> = Vec::new();
        let root = format!("{AUDIT}?limit=2&order={order}");
        let mut path = root.clone();
        loop {
            let page = bench.get(&path).await.ok();
            let data = page["data"].as_array().unwrap();
            found.extend(data.iter().map(|entry| entry["position"].as_u64().unwrap()));
            match page["next_page"].as_str() {
                Some(next) => path = format!("{root}&page={next}"),
                None => break,
            }
        }
        if order == "desc" {
            found.reverse();
        }
        assert_eq!(found, [1, 2, 3, 4, 5], "{order}");
    }
    let first = bench.get(&format!("{AUDIT}?limit=2&order=asc")).await.ok();
    let next = first["next_page"].as_str().unwrap();
    let words = bench
        .get(&format!("{AUDIT}?order=desc&page={next}"))
        .await
        .refused(400);
    assert!(words.starts_with("page: "), "{words}");
}

#[tokio::test]
async fn a_want_of_scope_is_there_whatever_was_asked() {
    let bench = Bench::new().await;
    let body = json!({ "name": "reader", "scope": "read-only" });
    let key = bench.post("/outlast/v1/keys", body).await.ok();
    let secret = key["key"].as_str().unwrap();
    for (method, path) in [(Method::GET, AUDIT), (Method::POST, "/v1/sessions")] {
        let asked = Request::builder().method(method).uri(path);
        let asked = asked.header("x-api-key", secret).body("{}".into()).unwrap();
        bench.ask(asked).await.refused(403);
    }
    let found = entries(&bench, &format!("&actor={}", id(&key))).await;
    let found: Vec<_> = found
        .iter()
        .map(|entry| (&entry["action"], &entry["outcome"], &entry["status"]))
        .collect();
    let expected = ["GET /outlast/v1/audit", "POST /v1/sessions"].map(Value::from);
    let [get, post] = &expected;
    let (refused, status) = (Value::from("refused"), Value::from(403));
    assert_eq!(found, [(get, &refused, &status), (post, &refused, &status)]);
}

#[tokio::test]
async fn what_cannot_be_told_is_not_done() {
    let bench = Bench::new().await;
    bench.store.lacks(Some(Away::full("no room")));
    let refused = bench
        .post("/v1/agents", json!({ "name": "a", "model": "full" }))
        .await;
    assert_eq!(
        refused.json()["error"]["details"]["error_code"],
        "disk_full"
    );
    refused.refused(503);
    bench.get("/v1/agents").await.ok();
    bench.store.lacks(None);
    assert_eq!(entries(&bench, "").await, [] as [Value; 0]);
    assert_eq!(bench.get("/v1/agents").await.ok()["data"], json!([]));
}

#[tokio::test]
async fn others_add_entries_of_their_own() {
    let bench = Bench::new().await;
    let entry = Entry::new(bench.kernel.now(), Actor::Server, "egress.refused");
    let entry = entry
        .of("hand_1")
        .with("host", "evil.example")
        .with("rule", "not_allowed");
    bench.kernel.audit(entry).await.unwrap();
    let listed = bench.ask(request(Method::GET, AUDIT, &[], "")).await;
    insta::assert_json_snapshot!("audit_entry", listed.shown());
}
