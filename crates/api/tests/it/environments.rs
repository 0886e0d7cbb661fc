//! Environments.

use serde_json::json;

use crate::bench::{Bench, id};

#[tokio::test]
async fn an_environment_lives() {
    let bench = Bench::new().await;
    let body = json!({
        "name": "home",
        "description": "Where things run.",
        "metadata": { "a": "1" },
        "scope": "organization",
        "config": {
            "type": "cloud",
            "networking": { "type": "limited", "allowed_hosts": ["*.example.com"] },
            "packages": { "type": "packages", "apt": [], "pip": null },
        },
    });
    let made = bench.post("/v1/environments", body).await;
    insta::assert_json_snapshot!("created", made.shown());
    let path = format!("/v1/environments/{}", id(&made.json()));
    assert_eq!(bench.get(&path).await.json(), made.json());
    assert_eq!(
        bench.post(&path, json!({ "name": "home" })).await.json(),
        made.json()
    );

    let change = json!({
        "description": null,
        "metadata": { "a": "", "b": "2" },
        "config": { "type": "cloud", "networking": { "type": "limited", "allow_mcp_servers": true } },
    });
    let updated = bench.post(&path, change).await;
    insta::assert_json_snapshot!("updated", updated.shown());
    assert_eq!(bench.get(&path).await.json(), updated.json());
    let reply = bench
        .post(&path, json!({ "config": { "type": "self_hosted" } }))
        .await;
    insta::assert_json_snapshot!("type_change", reply.shown());

    let archived = bench.poke(&format!("{path}/archive")).await;
    insta::assert_json_snapshot!("archived", archived.shown());
    assert_eq!(
        bench.poke(&format!("{path}/archive")).await.json(),
        archived.json()
    );
    let reply = bench.post(&path, json!({ "name": "x" })).await;
    insta::assert_json_snapshot!("update_of_archived", reply.shown());
    let deleted = bench.delete(&path).await;
    insta::assert_json_snapshot!("deleted", deleted.shown());
    assert_eq!(bench.get(&path).await.status, 404);
    assert_eq!(bench.delete(&path).await.status, 404);
}

#[tokio::test]
async fn a_name_is_enough() {
    let bench = Bench::new().await;
    let made = bench
        .post("/v1/environments", json!({ "name": "home" }))
        .await;
    insta::assert_json_snapshot!("default", made.shown());
    // Names need not be unique.
    bench
        .post("/v1/environments", json!({ "name": "home" }))
        .await
        .ok();
}

#[tokio::test]
async fn one_that_a_session_names_stays() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let shown = bench.get(&format!("/v1/sessions/{session}")).await.ok();
    let path = format!(
        "/v1/environments/{}",
        shown["environment_id"].as_str().unwrap()
    );
    let reply = bench.delete(&path).await;
    insta::assert_json_snapshot!("delete_of_used", reply.shown());
    bench.poke(&format!("{path}/archive")).await.ok();
    bench
        .poke(&format!("/v1/sessions/{session}/archive"))
        .await
        .ok();
    bench.delete(&path).await.refused(400);
    bench.delete(&format!("/v1/sessions/{session}")).await.ok();
    bench.delete(&path).await.ok();
}

#[tokio::test]
async fn wrong_fields_are_named() {
    let bench = Bench::new().await;
    let mut told = Vec::new();
    for body in [
        json!({}),
        json!({ "name": "a", "scope": "account" }),
        json!({ "name": "a", "config": { "type": "self_hosted" } }),
        json!({ "name": "a", "config": { "type": "cloud", "packages": { "apt": ["jq"] } } }),
        json!({ "name": "a", "config": { "type": "cloud", "networking": { "type": "open" } } }),
        json!({ "name": "a", "config": { "type": "cloud", "networking": {
            "type": "limited", "allowed_hosts": ["https://example.com/x"] } } }),
        json!({ "name": "a", "colour": "blue" }),
    ] {
        let reply = bench.post("/v1/environments", body).await;
        assert_eq!(reply.status, 400);
        told.push(reply.json()["error"].clone());
    }
    insta::assert_json_snapshot!("wrong_fields", told);
}

#[tokio::test]
async fn lists_are_newest_first_and_hide_the_archived() {
    let bench = Bench::new().await;
    let mut made = Vec::new();
    for name in ["a", "b", "c"] {
        made.push(
            bench
                .post("/v1/environments", json!({ "name": name }))
                .await
                .ok(),
        );
    }
    bench
        .poke(&format!("/v1/environments/{}/archive", id(&made[2])))
        .await
        .ok();
    insta::assert_json_snapshot!("list", bench.get("/v1/environments?limit=1").await.shown());
    let all = bench
        .get("/v1/environments?include_archived=true")
        .await
        .ok();
    let ids: Vec<_> = all["data"].as_array().unwrap().iter().map(id).collect();
    assert_eq!(ids, made.iter().rev().map(id).collect::<Vec<_>>());
}
