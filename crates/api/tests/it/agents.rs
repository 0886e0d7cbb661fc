//! Agents and their versions.

use http::Method;
use serde_json::{Value, json};

use crate::bench::{Bench, id, request, tools};

fn whole() -> Value {
    json!({
        "name": "helper",
        "model": { "id": "full", "effort": "high", "speed": "fast", "inference_geo": "us" },
        "description": "Helps.",
        "system": "You help.",
        "tools": tools(),
        "mcp_servers": [],
        "skills": null,
        "multiagent": null,
        "metadata": { "team": "blue" },
        "execution_identity": { "type": "service_account" },
    })
}

#[tokio::test]
async fn an_agent_lives() {
    let bench = Bench::new().await;
    let made = bench.post("/v1/agents", whole()).await;
    insta::assert_json_snapshot!("created", made.shown());
    let path = format!("/v1/agents/{}", id(&made.json()));
    assert_eq!(bench.get(&path).await.json(), made.json());

    let change =
        json!({ "name": "aide", "description": null, "metadata": { "team": null, "a": "b" } });
    let updated = bench.post(&path, change).await;
    insta::assert_json_snapshot!("updated", updated.shown());
    assert_eq!(bench.get(&path).await.json(), updated.json());
    assert_eq!(
        bench.get(&format!("{path}?version=1")).await.json(),
        made.json()
    );
    assert_eq!(
        bench.get(&format!("{path}?version=2")).await.json(),
        updated.json()
    );
    let reply = bench.get(&format!("{path}?version=3")).await;
    insta::assert_json_snapshot!("unknown_version", reply.shown());
    for bad in ["0", "-1", "x", "4294967296", "1.5", ""] {
        let words = bench
            .get(&format!("{path}?version={bad}"))
            .await
            .refused(400);
        assert!(
            words.starts_with("version: must be an integer from 1 to"),
            "{words}"
        );
    }

    let archived = bench.poke(&format!("{path}/archive")).await;
    insta::assert_json_snapshot!("archived", archived.shown());
    assert_eq!(bench.get(&path).await.json(), archived.json());
    assert_eq!(
        bench.poke(&format!("{path}/archive")).await.json(),
        archived.json()
    );
    let versions = bench.get(&format!("{path}/versions")).await;
    insta::assert_json_snapshot!("versions", versions.shown());
    let refused = bench.post(&path, json!({ "name": "x" })).await;
    insta::assert_json_snapshot!("update_of_archived", refused.shown());
}

#[tokio::test]
async fn a_version_is_checked_even_if_nothing_would_change() {
    let bench = Bench::new().await;
    let made = bench.post("/v1/agents", whole()).await.ok();
    let path = format!("/v1/agents/{}", id(&made));
    assert_eq!(
        bench
            .post(&path, json!({ "version": 1, "name": "helper" }))
            .await
            .ok(),
        made
    );
    assert_eq!(bench.post(&path, json!({})).await.ok(), made);
    assert_eq!(bench.poke(&path).await.ok(), made);
    let reply = bench
        .post(&path, json!({ "version": 2, "name": "helper" }))
        .await;
    assert_eq!(reply.headers["x-should-retry"], "false");
    insta::assert_json_snapshot!("version_conflict", reply.shown());
    let changed = bench
        .post(&path, json!({ "version": 1, "name": "aide" }))
        .await
        .ok();
    assert_eq!(changed["version"], 2);
    assert_eq!(changed["created_at"], made["created_at"]);
    assert_ne!(changed["updated_at"], made["updated_at"]);
}

#[tokio::test]
async fn a_model_keeps_its_effort_until_it_changes() {
    let bench = Bench::new().await;
    let made = bench.post("/v1/agents", whole()).await.ok();
    let path = format!("/v1/agents/{}", id(&made));
    let kept = bench.post(&path, json!({ "model": "full" })).await.ok();
    assert_eq!(
        kept["model"],
        json!({ "id": "full", "effort": { "type": "high" }, "speed": "standard" })
    );
    let other = bench.post(&path, json!({ "model": "plain" })).await.ok();
    assert_eq!(other["model"]["effort"], json!({ "type": "high" }));
    let back = bench.post(&path, json!({ "model": "full" })).await.ok();
    assert_eq!(back["model"]["effort"], json!({ "type": "medium" }));
}

#[tokio::test]
async fn updates_that_race_are_all_made() {
    let bench = Bench::new().await;
    let made = bench
        .post("/v1/agents", json!({ "name": "a", "model": "full" }))
        .await
        .ok();
    let path = format!("/v1/agents/{}", id(&made));
    let changes =
        (0..16).map(|key| bench.post(&path, json!({ "metadata": { format!("k{key}"): "v" } })));
    let replies = futures::future::join_all(changes).await;
    let mut versions: Vec<_> = replies
        .into_iter()
        .map(|reply| reply.ok()["version"].as_u64().unwrap())
        .collect();
    versions.sort_unstable();
    assert_eq!(versions, (2..=17).collect::<Vec<_>>());
    let now = bench.get(&path).await.ok();
    assert_eq!(now["metadata"].as_object().unwrap().len(), 16);
}

#[tokio::test]
async fn an_archive_that_races_with_updates_is_the_last_word() {
    for _ in 0..10 {
        let bench = Bench::new().await;
        let made = bench
            .post("/v1/agents", json!({ "name": "a", "model": "full" }))
            .await
            .ok();
        let path = format!("/v1/agents/{}", id(&made));
        let archive = format!("{path}/archive");
        let (_, archived, _) = tokio::join!(
            bench.post(&path, json!({ "name": "b" })),
            bench.poke(&archive),
            bench.post(&path, json!({ "name": "c" })),
        );
        archived.ok();
        assert!(bench.get(&path).await.ok()["archived_at"].is_string());
    }
}

#[tokio::test]
async fn wrong_fields_are_named() {
    let bench = Bench::new().await;
    let cases = [
        (json!({ "model": "full" }), 400),
        (json!({ "name": "a" }), 400),
        (json!({ "name": "a", "model": "unknown" }), 400),
        (
            json!({ "name": "a", "model": { "id": "plain", "speed": "fast" } }),
            400,
        ),
        (
            json!({ "name": "a", "model": { "id": "plain", "effort": "low" } }),
            400,
        ),
        (
            json!({ "name": "a", "model": { "id": "plain", "inference_geo": "us" } }),
            400,
        ),
        (json!({ "name": 7, "model": "full" }), 400),
        (
            json!({ "name": "a", "model": "full", "tools": [{ "type": "computer" }] }),
            400,
        ),
        (
            json!({ "name": "a", "model": "full", "colour": "blue" }),
            400,
        ),
        (
            json!({ "name": "a", "model": "full", "mcp_servers": [{ "type": "url" }] }),
            400,
        ),
        (
            json!({ "name": "a", "model": "full", "skills": [{ "type": "custom" }] }),
            400,
        ),
        (
            json!({ "name": "a", "model": "full", "multiagent": { "type": "coordinator" } }),
            400,
        ),
        (
            json!({ "name": "a", "model": "full", "tools": [{ "type": "mcp_toolset" }] }),
            400,
        ),
        (
            json!({ "name": "a", "model": "full", "metadata": { "k": 1 } }),
            400,
        ),
    ];
    let mut told = Vec::new();
    for (body, status) in cases {
        let reply = bench.post("/v1/agents", body).await;
        assert_eq!(reply.status.as_u16(), status);
        told.push(reply.json()["error"].clone());
    }
    insta::assert_json_snapshot!("wrong_fields", told);
    let agent = id(&bench.post("/v1/agents", whole()).await.ok());
    for (body, words) in [
        (json!({ "name": null }), "name: must not be null"),
        (json!({ "model": null }), "model: must not be null"),
        (json!({ "version": 0 }), "version: must be an integer"),
        (json!({ "id": "x" }), "id: unknown field"),
    ] {
        let told = bench
            .post(&format!("/v1/agents/{agent}"), body)
            .await
            .refused(400);
        assert!(told.starts_with(words), "{told}");
    }
}

#[tokio::test]
async fn lists_hide_the_archived_and_filter_by_time() {
    let bench = Bench::new().await;
    let mut made = Vec::new();
    for name in ["a", "b", "c"] {
        made.push(
            bench
                .post("/v1/agents", json!({ "name": name, "model": "full" }))
                .await
                .ok(),
        );
    }
    bench
        .poke(&format!("/v1/agents/{}/archive", id(&made[1])))
        .await
        .ok();
    let names = async |query: &str| {
        let listed = bench.get(&format!("/v1/agents{query}")).await.ok();
        let data = listed["data"].as_array().unwrap();
        data.iter()
            .map(|agent| agent["name"].as_str().unwrap())
            .collect::<String>()
    };
    assert_eq!(names("").await, "ca");
    assert_eq!(names("?include_archived=true").await, "cba");
    assert_eq!(names("?include_archived=false").await, "ca");
    let at = made[1]["created_at"].as_str().unwrap().to_owned();
    assert_eq!(names(&format!("?created_at[gte]={at}")).await, "c");
    assert_eq!(
        names(&format!("?created_at%5Blte%5D={at}&include_archived=true")).await,
        "ba"
    );
    let offset = at.replace('Z', "%2B00:00");
    assert_eq!(
        names(&format!("?created_at[gte]={offset}&include_archived=true")).await,
        "cb"
    );
    insta::assert_json_snapshot!("list", bench.get("/v1/agents?limit=1").await.shown());
    for (query, words) in [
        (
            "created_at[gt]=x",
            "created_at[gt]: unknown query parameter",
        ),
        ("created_at[gte]=yesterday", "created_at[gte]:"),
        (
            "include_archived=1",
            "include_archived: must be `true` or `false`",
        ),
        ("limit=0", "limit: must be an integer from 1 to 100"),
        ("limit=101", "limit: must be an integer from 1 to 100"),
        ("limit=1&limit=2", "limit: must be given at most once"),
        ("page=x", "page: is not a cursor"),
    ] {
        let told = bench.get(&format!("/v1/agents?{query}")).await.refused(400);
        assert!(told.starts_with(words), "{query}: {told}");
    }
}

#[tokio::test]
async fn an_update_may_come_with_its_own_id_in_no_other_method() {
    let bench = Bench::new().await;
    let agent = id(&bench.post("/v1/agents", whole()).await.ok());
    let reply = bench
        .ask(request(
            Method::DELETE,
            &format!("/v1/agents/{agent}"),
            &[],
            "",
        ))
        .await;
    assert_eq!(reply.status, 405);
}
