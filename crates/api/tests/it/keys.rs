//! Keys: scopes, expiry, revocation, and secrets that are shown once.

use std::time::Duration;

use http::{Method, Request};
use outlast_protocol::id::ApiKeyId;
use outlast_store::Keys as _;
use serde_json::{Value, json};

use crate::bench::{Bench, Reply, id, request};

const KEYS: &str = "/outlast/v1/keys";

async fn made(bench: &Bench, scope: &str) -> (String, String) {
    let body = json!({ "name": "one", "scope": scope });
    let key = bench.post(KEYS, body).await.ok();
    (id(&key), key["key"].as_str().unwrap().to_owned())
}

/// Asks with a key.
async fn with(bench: &Bench, key: &str, method: Method, path: &str, body: Value) -> Reply {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("x-api-key", key)
        .header("content-type", "application/json");
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    bench.ask(request.body(body.into()).unwrap()).await
}

async fn read(bench: &Bench, key: &str) -> Reply {
    with(bench, key, Method::GET, "/v1/agents", Value::Null).await
}

#[tokio::test]
async fn a_key_is_shown_once_and_listed_without_its_secret() {
    let bench = Bench::new().await;
    let body = json!({ "name": "ci", "scope": "read-write", "expires_in_seconds": 60 });
    let made = bench.post(KEYS, body).await;
    insta::assert_json_snapshot!("key_created", {
        ".body.key" => "[secret]",
    }, made.shown());
    let made = made.ok();
    let secret = made["key"].as_str().unwrap();
    assert!(secret.starts_with("outlast_") && secret.len() == 72);
    let listed = bench.get(KEYS).await;
    assert!(!listed.text.contains(secret) && !listed.text.contains("hash"));
    insta::assert_json_snapshot!("keys_listed", listed.shown());
    let revoked = bench.poke(&format!("{KEYS}/{}/revoke", id(&made))).await;
    insta::assert_json_snapshot!("key_revoked", revoked.shown());
    let ids = async |query: &str| {
        let listed = bench.get(&format!("{KEYS}{query}")).await.ok();
        listed["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(id)
            .collect::<Vec<_>>()
    };
    assert!(!ids("").await.contains(&id(&made)));
    assert!(ids("?include_revoked=true").await.contains(&id(&made)));
}

#[tokio::test]
async fn a_scope_says_what_a_key_may_do() {
    let bench = Bench::new().await;
    let (agent, environment) = bench.home().await;
    let session = json!({ "agent": agent, "environment_id": environment });
    let sessions = "/v1/sessions";
    // Least first.
    let requests = [
        ("read-only", Method::GET, "/v1/agents", Value::Null),
        (
            "read-only",
            Method::GET,
            "/outlast/v1/diagnosis",
            Value::Null,
        ),
        ("read-write", Method::POST, sessions, session),
        (
            "read-write",
            Method::DELETE,
            "/v1/files/file_1",
            Value::Null,
        ),
        ("admin", Method::GET, KEYS, Value::Null),
        (
            "admin",
            Method::POST,
            KEYS,
            json!({ "name": "x", "scope": "admin" }),
        ),
    ];
    let order = ["read-only", "read-write", "admin"];
    for (rank, scope) in order.iter().enumerate() {
        let (_, key) = made(&bench, scope).await;
        for (needed, method, path, body) in &requests {
            let reply = with(&bench, &key, method.clone(), path, body.clone()).await;
            let enough = order.iter().position(|scope| scope == needed).unwrap() <= rank;
            if enough {
                assert!(!matches!(reply.status.as_u16(), 401 | 403), "{reply:?}");
                continue;
            }
            assert_eq!(reply.json()["error"]["type"], "permission_error");
            let words = reply.refused(403);
            assert!(words.contains(&format!("`{needed}`")), "{words}");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_no_more_is_refused_in_the_same_words() {
    let bench = Bench::new().await;
    let body = json!({ "name": "short", "scope": "admin", "expires_in_seconds": 60 });
    let short = bench.post(KEYS, body).await.ok();
    let short = short["key"].as_str().unwrap();
    let (revoked_id, revoked) = made(&bench, "admin").await;
    assert_eq!(read(&bench, short).await.status, 200);
    assert_eq!(read(&bench, &revoked).await.status, 200);
    let first = bench
        .poke(&format!("{KEYS}/{revoked_id}/revoke"))
        .await
        .ok();
    // At once: no time passed since it was good.
    let words = read(&bench, &revoked).await.refused(401);
    assert_eq!(read(&bench, short).await.status, 200);
    bench.clock.advance(Duration::from_secs(60));
    assert_eq!(read(&bench, short).await.refused(401), words);
    assert_eq!(read(&bench, "outlast_unknown").await.refused(401), words);
    let again = bench
        .poke(&format!("{KEYS}/{revoked_id}/revoke"))
        .await
        .ok();
    assert_eq!(again, first, "it was revoked once");
}

#[tokio::test]
async fn a_key_that_is_remembered_expires_at_its_moment() {
    let bench = Bench::new().await;
    let body = json!({ "name": "short", "scope": "read-only", "expires_in_seconds": 2 });
    let key = bench.post(KEYS, body).await.ok();
    let key = key["key"].as_str().unwrap();
    bench.clock.advance(Duration::from_millis(1_900));
    assert_eq!(read(&bench, key).await.status, 200);
    bench.clock.advance(Duration::from_millis(100));
    read(&bench, key).await.refused(401);
}

#[tokio::test]
async fn a_key_that_was_revoked_elsewhere_lives_on_for_a_second_at_most() {
    let bench = Bench::new().await;
    let (key_id, key) = made(&bench, "admin").await;
    assert_eq!(read(&bench, &key).await.status, 200);
    let now = bench.kernel.now();
    let store = bench.store.inner();
    store
        .revoke_key(key_id.parse().unwrap(), now)
        .await
        .unwrap();
    // With every request the clock goes on by a millisecond.
    bench.clock.advance(Duration::from_millis(998));
    assert_eq!(read(&bench, &key).await.status, 200);
    read(&bench, &key).await.refused(401);
    read(&bench, &key).await.refused(401);
}

#[tokio::test]
async fn a_repeat_makes_no_second_key_and_shows_no_secret() {
    let bench = Bench::new().await;
    let headers = [("idempotency-key", "once")];
    let body = json!({ "name": "ci", "scope": "admin" }).to_string();
    let ask = || request(Method::POST, KEYS, &headers, &body);
    let first = bench.ask(ask()).await.ok();
    assert!(first["key"].is_string());
    let again = bench.ask(ask()).await;
    assert_eq!(again.headers["idempotent-replayed"], "true");
    let mut expected = first.clone();
    expected["key"] = Value::Null;
    assert_eq!(again.ok(), expected);
    let listed = bench.get(KEYS).await.ok();
    let named = listed["data"].as_array().unwrap().iter();
    assert_eq!(named.filter(|key| key["name"] == "ci").count(), 1);
}

#[tokio::test]
async fn wrong_wishes_are_refused() {
    let bench = Bench::new().await;
    for (body, words) in [
        (json!({ "name": "x" }), "scope: is required"),
        (json!({ "name": "x", "scope": "root" }), "scope: must be"),
        (
            json!({ "name": "x", "scope": "admin", "expires_in_seconds": -1 }),
            "expires_in",
        ),
    ] {
        let refused = bench.post(KEYS, body).await.refused(400);
        assert!(refused.starts_with(words), "{refused}");
    }
    let nobody = ApiKeyId::mint(bench.kernel.now(), bench.kernel.entropy());
    let missing = bench.poke(&format!("{KEYS}/{nobody}/revoke")).await;
    assert!(missing.refused(404).contains(&nobody.to_string()));
    bench
        .poke(&format!("{KEYS}/nobody/revoke"))
        .await
        .refused(404);
    let body = json!({ "why": "x" });
    let refused = bench.post(&format!("{KEYS}/{nobody}/revoke"), body).await;
    refused.refused(400);
    bench.get(&format!("{KEYS}?limit=0")).await.refused(400);
    bench.get(&format!("{KEYS}?page=page_x")).await.refused(400);
}

#[tokio::test]
async fn lists_of_keys_have_pages() {
    let bench = Bench::new().await;
    for _ in 0..4 {
        made(&bench, "read-only").await;
    }
    let mut found = Vec::new();
    let mut path = format!("{KEYS}?limit=2");
    loop {
        let page = bench.get(&path).await.ok();
        found.extend(page["data"].as_array().unwrap().iter().map(id));
        match page["next_page"].as_str() {
            Some(next) => path = format!("{KEYS}?limit=2&page={next}"),
            None => break,
        }
    }
    assert_eq!(found.len(), 5, "and the one of the test: {found:?}");
    assert!(found.is_sorted_by(|one, next| one > next), "newest first");
}
