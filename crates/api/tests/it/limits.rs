//! Every bound that applies now gives a 400 that names field and bound.

use serde_json::{Value, json};

use crate::bench::{Bench, message};

fn long(count: usize) -> String {
    "é".repeat(count)
}

fn pairs(count: usize) -> Value {
    let pairs = (0..count).map(|key| (format!("k{key}"), json!("v")));
    Value::Object(pairs.collect())
}

#[track_caller]
fn bounded(words: &str, field: &str, bound: &str) {
    assert!(
        words.starts_with(&format!("{field}:")) && words.contains(bound),
        "{field}: {words}"
    );
}

#[tokio::test]
async fn of_agents() {
    let bench = Bench::new().await;
    let base = || json!({ "name": "a", "model": "full" });
    let with = |field: &str, value: Value| {
        let mut body = base();
        body[field] = value;
        body
    };
    let custom = |name: &str, schema: Value| json!([{ "type": "custom", "name": name, "description": "d", "input_schema": schema }]);
    let tools = (0..129)
        .map(|n| custom(&format!("t{n}"), json!({ "type": "object" }))[0].clone())
        .collect::<Vec<_>>();
    let domains = |list: Value| {
        json!([{ "type": "agent_toolset_20260401", "configs": [
            { "name": "web_fetch", "allowed_domains": list },
        ]}])
    };
    let many: Vec<_> = (0..65).map(|n| format!("d{n}.example.com")).collect();
    for (field, value, named, bound) in [
        ("name", json!(long(257)), "name", "1 to 256"),
        ("name", json!(""), "name", "1 to 256"),
        ("description", json!(long(2_049)), "description", "2048"),
        ("system", json!(long(100_001)), "system", "100000"),
        ("tools", json!(tools), "tools", "128"),
        (
            "tools",
            custom(&"t".repeat(129), json!({ "type": "object" })),
            "tools.0.name",
            "128",
        ),
        (
            "tools",
            domains(json!(many)),
            "tools.0.configs.0.allowed_domains",
            "64",
        ),
        ("metadata", pairs(17), "metadata", "16"),
        ("metadata", json!({ long(65): "v" }), "metadata", "64"),
        ("metadata", json!({ "k": long(513) }), "metadata", "512"),
        ("model", json!(long(257)), "model", "256"),
        (
            "execution_identity",
            json!({ "type": "aws_role", "role_arn": long(2_049) }),
            "execution_identity.role_arn",
            "2048",
        ),
    ] {
        let words = bench
            .post("/v1/agents", with(field, value))
            .await
            .refused(400);
        bounded(&words, named, bound);
    }
    for (field, value) in [
        ("name", json!(long(256))),
        ("description", json!(long(2_048))),
        ("system", json!(long(100_000))),
        ("metadata", pairs(16)),
        ("metadata", json!({ long(64): long(512) })),
        ("tools", json!(tools[..128])),
    ] {
        bench.post("/v1/agents", with(field, value)).await.ok();
    }
    // Bounds hold for what an update leads to as well.
    let made = bench
        .post("/v1/agents", with("metadata", pairs(16)))
        .await
        .ok();
    let path = format!("/v1/agents/{}", made["id"].as_str().unwrap());
    let words = bench
        .post(&path, json!({ "metadata": { "one more": "v" } }))
        .await
        .refused(400);
    bounded(&words, "metadata", "16");
    bench
        .post(
            &path,
            json!({ "metadata": { "one more": "v", "k0": null } }),
        )
        .await
        .ok();
}

#[tokio::test]
async fn of_environments() {
    let bench = Bench::new().await;
    let hosts = |count: usize| {
        let hosts: Vec<_> = (0..count).map(|n| format!("h{n}.example.com")).collect();
        json!({ "type": "cloud", "networking": { "type": "limited", "allowed_hosts": hosts } })
    };
    for (body, named, bound) in [
        (json!({ "name": long(257) }), "name", "256"),
        (
            json!({ "name": "a", "description": long(2_049) }),
            "description",
            "2048",
        ),
        (
            json!({ "name": "a", "metadata": pairs(17) }),
            "metadata",
            "16",
        ),
        (
            json!({ "name": "a", "config": hosts(501) }),
            "config.networking.allowed_hosts",
            "500",
        ),
    ] {
        let words = bench.post("/v1/environments", body).await.refused(400);
        bounded(&words, named, bound);
    }
}

#[tokio::test]
async fn of_sessions_and_events() {
    let bench = Bench::new().await;
    let (agent, environment) = bench.home().await;
    let with = |field: &str, value: Value| {
        let mut body = json!({ "agent": agent, "environment_id": environment });
        body[field] = value;
        body
    };
    let messages = |count: usize| vec![message("x"); count];
    for (field, value, bound) in [
        ("title", json!(long(1_025)), "1024"),
        ("metadata", pairs(17), "16"),
        ("initial_events", json!(messages(51)), "50"),
    ] {
        let words = bench
            .post("/v1/sessions", with(field, value))
            .await
            .refused(400);
        bounded(&words, field, bound);
    }
    bench
        .post("/v1/sessions", with("initial_events", json!(messages(50))))
        .await
        .ok();

    let session = bench.session().await;
    let path = format!("/v1/sessions/{session}/events");
    let text = |count: usize| vec![json!({ "type": "text", "text": "x" }); count];
    let system = |content: Vec<Value>| json!([message("x"), { "type": "system.message", "content": content }]);
    for (events, named, bound) in [
        (json!(messages(1_001)), "events", "1000"),
        (
            json!([{ "type": "user.message", "content": text(1_001) }]),
            "events.0.content",
            "1000",
        ),
        (system(text(1_001)), "events.1.content", "1 to 1000"),
        (system(Vec::new()), "events.1.content", "1 to 1000"),
    ] {
        let words = bench
            .post(&path, json!({ "events": events }))
            .await
            .refused(400);
        bounded(&words, named, bound);
    }
    bench
        .post(&path, json!({ "events": system(text(1_000)) }))
        .await
        .ok();
    // So many may wait, and no more: that is a shortage, not a fault of the client.
    let reply = bench
        .post(&path, json!({ "events": messages(1_000) }))
        .await;
    assert_eq!(reply.headers["retry-after"], "2");
    insta::assert_json_snapshot!("queue_full", reply.shown());
}

#[tokio::test]
async fn of_queries_and_headers() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let stream = format!("/v1/sessions/{session}/events/stream");
    let deltas = vec!["event_deltas[]=agent.message"; 101].join("&");
    let words = bench.get(&format!("{stream}?{deltas}")).await.refused(400);
    bounded(&words, "event_deltas", "100");
    let types = vec!["types[]=user.message"; 101].join("&");
    let words = bench
        .get(&format!("/v1/sessions/{session}/events?{types}"))
        .await
        .refused(400);
    bounded(&words, "types", "100");
    let page = format!("page=page_{}", "a".repeat(3_000));
    for path in ["/v1/agents", "/v1/environments", "/v1/sessions"] {
        let words = bench.get(&format!("{path}?{page}")).await.refused(400);
        bounded(&words, "page", "2048");
    }
    let words = bench.get("/v1/agents?limit=1%00").await.refused(400);
    bounded(&words, "limit", "U+0000");
}
