//! Sessions.

use serde_json::{Value, json};

use crate::{
    bench::{Bench, id, message},
    brain::Brain,
};

#[tokio::test]
async fn a_session_lives() {
    let bench = Bench::new().await;
    let (agent, environment) = bench.home().await;
    let body = json!({
        "agent": agent,
        "environment_id": environment,
        "title": "First",
        "metadata": { "ticket": "7" },
        "resources": [],
        "vault_ids": null,
        "initial_events": [],
        "budget": null,
    });
    let made = bench.post("/v1/sessions", body).await;
    insta::assert_json_snapshot!("created", made.shown());
    let session = id(&made.json());
    let path = format!("/v1/sessions/{session}");
    let shown = bench.get(&path).await.ok();
    assert_eq!(
        (&shown["id"], &shown["status"]),
        (&made.json()["id"], &json!("idle"))
    );

    let change = json!({
        "title": null,
        "metadata": { "ticket": null, "a": "b" },
        "agent": { "tools": [] },
    });
    let updated = bench.post(&path, change.clone()).await;
    insta::assert_json_snapshot!("updated", updated.shown());
    let told = bench.log(&session).await;
    insta::assert_json_snapshot!("updated_event", crate::redact::redact(&json!(told)));
    bench.post(&path, change).await.ok();
    bench.poke(&path).await.ok();
    assert_eq!(
        bench.log(&session).await,
        told,
        "a change of nothing is told to nobody"
    );

    let archived = bench.poke(&format!("{path}/archive")).await;
    insta::assert_json_snapshot!("archived", archived.shown());
    assert_eq!(bench.poke(&format!("{path}/archive")).await.status, 200);
    let reply = bench.post(&path, json!({ "title": "x" })).await;
    insta::assert_json_snapshot!("update_of_archived", reply.shown());
    let reply = bench
        .post(
            &format!("{path}/events"),
            json!({ "events": [message("hi")] }),
        )
        .await;
    insta::assert_json_snapshot!("send_to_archived", reply.shown());
    assert!(!bench.log(&session).await.is_empty(), "the history stays");

    let deleted = bench.delete(&path).await;
    insta::assert_json_snapshot!("deleted", deleted.shown());
    assert_eq!(bench.get(&path).await.status, 404);
    assert_eq!(bench.get(&format!("{path}/events")).await.status, 404);
    assert_eq!(bench.delete(&path).await.status, 404);
}

#[tokio::test]
async fn all_forms_of_agent_are_taken() {
    let bench = Bench::new().await;
    let (agent, environment) = bench.home().await;
    bench
        .post(&format!("/v1/agents/{agent}"), json!({ "system": "New." }))
        .await
        .ok();
    let create = async |agent: Value| {
        let body = json!({ "agent": agent, "environment_id": environment });
        bench.post("/v1/sessions", body).await
    };
    let latest = create(json!(agent)).await.ok();
    assert_eq!(
        (&latest["agent"]["version"], &latest["agent"]["system"]),
        (&json!(2), &json!("New."))
    );
    let plain = create(json!({ "type": "agent", "id": agent })).await.ok();
    assert_eq!(plain["agent"], latest["agent"]);
    let first = create(json!({ "type": "agent", "id": agent, "version": 1 }))
        .await
        .ok();
    assert_eq!(
        (&first["agent"]["version"], &first["agent"]["system"]),
        (&json!(1), &Value::Null)
    );
    let overrides = json!({
        "type": "agent_with_overrides",
        "id": agent,
        "version": 2,
        "model": { "id": "plain" },
        "system": null,
        "tools": [],
    });
    insta::assert_json_snapshot!("overrides", create(overrides).await.shown());
    let inherited = create(json!({ "type": "agent_with_overrides", "id": agent }))
        .await
        .ok();
    assert_eq!(inherited["agent"], latest["agent"]);

    let unknown = format!("agent_01{}", "0".repeat(22));
    let mut told = Vec::new();
    for agent in [
        json!({ "type": "agent", "id": agent, "version": 9 }),
        json!({ "type": "agent_with_overrides", "id": agent, "model": null }),
        json!({ "type": "agent_with_overrides", "id": agent, "model": "unknown" }),
        json!({ "type": "agent", "id": agent, "system": "x" }),
        json!({ "id": agent }),
        json!(unknown),
        json!(7),
    ] {
        let reply = create(agent).await;
        told.push(crate::redact::redact(&json!([
            reply.status.as_u16(),
            reply.json()["error"]
        ])));
    }
    insta::assert_json_snapshot!("wrong_agents", told);
}

#[tokio::test]
async fn archived_and_unknown_parts_are_refused() {
    let bench = Bench::new().await;
    let (agent, environment) = bench.home().await;
    let (old, closed) = bench.home().await;
    bench
        .post(&format!("/v1/agents/{old}"), json!({ "name": "older" }))
        .await
        .ok();
    bench.poke(&format!("/v1/agents/{old}/archive")).await.ok();
    bench
        .poke(&format!("/v1/environments/{closed}/archive"))
        .await
        .ok();
    let unknown = format!("env_01{}", "0".repeat(22));
    let mut told = Vec::new();
    for body in [
        json!({ "agent": old, "environment_id": environment }),
        json!({ "agent": { "type": "agent", "id": old, "version": 1 }, "environment_id": environment }),
        json!({ "agent": agent, "environment_id": closed }),
        json!({ "agent": agent, "environment_id": unknown }),
        json!({ "agent": agent, "environment_id": "home" }),
        json!({ "agent": agent }),
        json!({ "environment_id": environment }),
        json!({ "agent": agent, "environment_id": environment, "resources": [{}] }),
        json!({ "agent": agent, "environment_id": environment, "vault_ids": ["vlt_1"] }),
        json!({ "agent": agent, "environment_id": environment, "budget": { "type": "x" } }),
        json!({ "agent": agent, "environment_id": environment, "colour": "blue" }),
        json!({ "agent": agent, "environment_id": environment,
            "initial_events": [{ "type": "user.interrupt" }] }),
        json!({ "agent": agent, "environment_id": environment,
            "initial_events": [{ "type": "user.define_outcome" }] }),
    ] {
        let reply = bench.post("/v1/sessions", body).await;
        told.push(crate::redact::redact(&json!([
            reply.status.as_u16(),
            reply.json()["error"]
        ])));
    }
    insta::assert_json_snapshot!("refused_parts", told);
    assert_eq!(bench.get("/v1/sessions").await.ok()["data"], json!([]));
}

#[tokio::test]
async fn initial_events_set_it_to_work_at_once() {
    let bench = Bench::new().await;
    let (agent, environment) = bench.home().await;
    let body = json!({
        "agent": agent,
        "environment_id": environment,
        "initial_events": [message("one"), message("two")],
    });
    let made = bench.post("/v1/sessions", body).await.ok();
    assert_eq!(made["status"], "running");
    assert_eq!(made.get("initial_events"), None);
    let session = id(&made);
    let waiting = bench.log(&session).await;
    insta::assert_json_snapshot!("initial_events", crate::redact::redact(&json!(waiting)));
    let brain = Brain::new(bench.lease().await);
    let path = format!("/v1/sessions/{session}");
    for (reply, what) in [
        (bench.poke(&format!("{path}/archive")).await, "archived"),
        (bench.delete(&path).await, "deleted"),
    ] {
        let words = reply.refused(400);
        assert!(words.contains("running") && words.contains(what), "{words}");
    }
    brain.answer("done").await;
    let log = bench.log(&session).await;
    insta::assert_json_snapshot!("first_turn", crate::redact::redact(&json!(log)));
    let shown = bench.get(&path).await.ok();
    insta::assert_json_snapshot!("after_first_turn", crate::redact::redact(&shown));
    bench.delete(&path).await.ok();
}

#[tokio::test]
async fn tools_change_only_while_idle() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    bench.say(&session, "hi").await;
    let path = format!("/v1/sessions/{session}");
    let reply = bench.post(&path, json!({ "agent": { "tools": [] } })).await;
    insta::assert_json_snapshot!("tools_while_running", reply.shown());
    bench.post(&path, json!({ "title": "fine" })).await.ok();
    for (body, words) in [
        (json!({ "vault_ids": ["v"] }), "vault_ids: not_supported"),
        (json!({ "budget": {"a": 1} }), "budget: not_supported"),
        (
            json!({ "agent": { "model": "full" } }),
            "agent.model: unknown field",
        ),
        (json!({ "metadata": 7 }), "metadata: must be an object"),
    ] {
        let told = bench.post(&path, body).await.refused(400);
        assert!(told.starts_with(words), "{told}");
    }
}

#[tokio::test]
async fn lists_filter_by_everything() {
    let bench = Bench::new().await;
    let (one, environment) = bench.home().await;
    let (two, _) = bench.home().await;
    bench
        .post(&format!("/v1/agents/{one}"), json!({ "name": "newer" }))
        .await
        .ok();
    let create = async |agent: Value, title: &str, events: Value| {
        let body = json!({
            "agent": agent, "environment_id": environment, "title": title, "initial_events": events,
        });
        bench.post("/v1/sessions", body).await.ok()
    };
    let a = create(
        json!({ "type": "agent", "id": one, "version": 1 }),
        "a",
        json!([]),
    )
    .await;
    let b = create(json!(one), "b", json!([])).await;
    create(json!(two), "c", json!([message("hi")])).await;
    let d = create(json!(two), "d", json!([])).await;
    bench
        .poke(&format!("/v1/sessions/{}/archive", id(&d)))
        .await
        .ok();
    let titles = async |query: &str| {
        let listed = bench.get(&format!("/v1/sessions?{query}")).await.ok();
        assert_eq!(
            (&listed["next_page"], &listed["prev_page"]),
            (&Value::Null, &Value::Null)
        );
        let data = listed["data"].as_array().unwrap();
        data.iter()
            .map(|session| session["title"].as_str().unwrap())
            .collect::<String>()
    };
    let at = b["created_at"].as_str().unwrap();
    for (query, expected) in [
        (String::new(), "cba"),
        ("order=asc".to_owned(), "abc"),
        ("order=desc&include_archived=true".to_owned(), "dcba"),
        (format!("agent_id={one}"), "ba"),
        (format!("agent_id={one}&agent_version=1"), "a"),
        (format!("agent_id={one}&agent_version=3"), ""),
        (format!("agent_id=agent_01{}", "0".repeat(22)), ""),
        ("agent_id=somebody".to_owned(), ""),
        ("statuses[]=running".to_owned(), "c"),
        ("statuses%5B%5D=idle&statuses[]=running".to_owned(), "cba"),
        ("statuses=idle&statuses=terminated".to_owned(), "ba"),
        (
            "statuses[]=terminated&include_archived=true".to_owned(),
            "d",
        ),
        (format!("created_at[gt]={at}"), "c"),
        (format!("created_at[gte]={at}"), "cb"),
        (format!("created_at[lt]={at}"), "a"),
        (format!("created_at[lte]={at}"), "ba"),
        ("deployment_id=depl_1".to_owned(), ""),
        ("memory_store_id=memstore_1".to_owned(), ""),
    ] {
        assert_eq!(titles(&query).await, expected, "{query}");
    }
    let listed = bench
        .get(&format!("/v1/sessions?agent_id={one}&limit=1"))
        .await;
    insta::assert_json_snapshot!("list", listed.shown());
    drop(a);
}

#[tokio::test]
async fn wrong_filters_are_named() {
    let bench = Bench::new().await;
    for (query, words) in [
        (
            "agent_version=1",
            "agent_version: is only allowed together with `agent_id`",
        ),
        ("statuses[]=sleeping", "statuses: must be"),
        ("order=up", "order: must be `asc` or `desc`"),
        ("limit=1001", "limit: must be an integer from 1 to 1000"),
        ("created_at[gt]=x", "created_at[gt]:"),
        ("include_archived=yes", "include_archived: must be"),
        ("page=page_x", "page: is not a cursor"),
    ] {
        let told = bench
            .get(&format!("/v1/sessions?{query}"))
            .await
            .refused(400);
        assert!(told.starts_with(words), "{query}: {told}");
    }
}
