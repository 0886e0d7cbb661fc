//! What HTTP adds: keys, ids of requests, the form of errors.

use axum::{Router, body::Body, routing::get};
use http::{Method, Request};
use serde_json::{Value, json};

use crate::bench::{Bench, KEY, Reply, request, whole};
use outlast_testkit::faulty::Fault;
use tower::ServiceExt as _;

#[track_caller]
fn has_form(reply: &Reply, status: u16, kind: &str) {
    assert_eq!(reply.status.as_u16(), status, "{}", reply.text);
    let id = reply.headers["request-id"].to_str().unwrap();
    assert!(id.starts_with("req_01"), "{id}");
    assert_eq!(reply.headers["content-type"], "application/json");
    let body = reply.json();
    assert_eq!(body["type"], "error");
    assert_eq!(body["error"]["type"], kind, "{body}");
    assert!(!body["error"]["message"].as_str().unwrap().is_empty());
    assert_eq!(body["request_id"], id);
}

fn bare(path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut builder = Request::builder().uri(path);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_key_comes_in_either_header() {
    let bench = Bench::new().await;
    let bearer = format!("Bearer {KEY}");
    let lower = format!("bearer  {KEY}");
    for headers in [
        vec![("x-api-key", KEY)],
        vec![("authorization", &*bearer)],
        vec![("authorization", &*lower)],
        vec![("authorization", "Bearer wrong"), ("x-api-key", KEY)],
        vec![("authorization", &*bearer), ("x-api-key", "wrong")],
    ] {
        let reply = bench.ask(bare("/v1/agents", &headers)).await;
        assert_eq!(reply.status, 200, "{headers:?}");
        assert!(
            reply.headers["request-id"]
                .to_str()
                .unwrap()
                .starts_with("req_01")
        );
    }
}

#[tokio::test]
async fn without_a_good_key_nothing_is_told() {
    let bench = Bench::new().await;
    let basic = [("authorization", "Basic abc")];
    let empty = [("authorization", "Bearer ")];
    let wrong = [("x-api-key", "wrong")];
    for headers in [&[][..], &basic[..], &empty[..], &wrong[..]] {
        for path in [
            "/v1/agents",
            "/v1/agents/agent_x",
            "/v1/nothing",
            "/nothing",
            "/v1/vaults",
        ] {
            let reply = bench.ask(bare(path, headers)).await;
            has_form(&reply, 401, "authentication_error");
        }
    }
    insta::assert_json_snapshot!("no_key", bench.ask(bare("/v1/agents", &[])).await.shown());
    insta::assert_json_snapshot!(
        "wrong_key",
        bench.ask(bare("/v1/agents", &wrong)).await.shown()
    );
}

#[tokio::test]
async fn both_versions_and_any_beta_pass() {
    let bench = Bench::new().await;
    let ask = async |headers: &[(&str, &str)]| {
        let path = "/v1/agents?beta=true";
        bench.ask(request(Method::GET, path, headers, "")).await
    };
    for version in ["2026-10-21", "2023-06-01"] {
        let beta = [
            ("anthropic-version", version),
            ("anthropic-beta", "managed-agents-2026-04-01,other"),
            ("anthropic-beta", "what-2030-01-01"),
            ("anthropic-workspace-id", "wrkspc_1"),
            ("x-stainless-helper", "session-tool-runner"),
        ];
        assert_eq!(ask(&beta).await.status, 200);
    }
    let reply = ask(&[("anthropic-version", "1999-01-01")]).await;
    has_form(&reply, 400, "invalid_request_error");
    insta::assert_json_snapshot!("unknown_version", reply.shown());
}

#[tokio::test]
async fn unknown_paths_and_methods_have_the_form() {
    let bench = Bench::new().await;
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v1/agents/",
        "/v1/messages",
        "/v2/agents",
        "/v1//agents",
    ] {
        has_form(&bench.get(path).await, 404, "not_found_error");
    }
    insta::assert_json_snapshot!("unknown_path", bench.get("/v1/nothing").await.shown());
    for (method, path) in [
        (Method::DELETE, "/v1/agents"),
        (Method::PUT, "/v1/sessions"),
        (Method::PATCH, "/v1/agents/agent_01"),
        (Method::POST, "/v1/sessions/sesn_01/events/stream"),
        (Method::POST, "/healthz"),
        (Method::OPTIONS, "/v1/agents"),
    ] {
        let reply = bench.ask(request(method.clone(), path, &[], "")).await;
        has_form(&reply, 405, "invalid_request_error");
        assert!(reply.headers.contains_key("allow"), "{method} {path}");
    }
    let reply = bench.delete("/v1/agents").await;
    insta::assert_json_snapshot!("wrong_method", reply.shown());
}

#[tokio::test]
async fn parts_of_later_say_so() {
    let bench = Bench::new().await;
    for path in [
        "/v1/memory_stores",
        "/v1/memory_stores/m/memories/x",
        "/v1/skills",
        "/v1/skills/s/versions/v/content",
        "/v1/deployments",
        "/v1/deployments/d/run",
        "/v1/deployment_runs",
        "/v1/dreams",
        "/v1/dreams/d/cancel",
        "/v1/environments/env_1/work",
        "/v1/environments/env_1/work/poll",
        "/v1/environments/env_1/work/work_1/heartbeat",
        "/v1/tunnels",
        "/v1/tunnels/t/certificates/c",
        "/v1/user_profiles",
        "/v1/user_profiles/u/enrollment_url",
        "/v1/webhooks",
    ] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let reply = bench.ask(request(method, path, &[], "")).await;
            has_form(&reply, 404, "not_found_error");
            assert_eq!(
                reply.json()["error"]["details"]["error_code"],
                "not_supported",
                "{path}"
            );
        }
    }
    insta::assert_json_snapshot!("later_part", bench.get("/v1/skills").await.shown());
}

#[tokio::test]
async fn bodies_that_are_no_json_are_refused_with_the_place() {
    let bench = Bench::new().await;
    let send = async |body: &str| {
        bench
            .ask(request(Method::POST, "/v1/agents", &[], body))
            .await
    };
    for body in [
        "{",
        "{\"name\": \"x\",\n oops}",
        "[1",
        "\u{1}",
        "{\"a\":1}{",
        "nul",
    ] {
        let reply = send(body).await;
        has_form(&reply, 400, "invalid_request_error");
        let words = reply.refused(400);
        assert!(
            words.contains("line") && words.contains("column"),
            "{words}"
        );
    }
    let reply = send("{\"name\": \"x\",\n oops}").await;
    insta::assert_json_snapshot!("broken_json", reply.shown());
    for (body, words) in [
        ("[]", "the body: must be an object"),
        ("null", "the body: must be an object"),
        ("\"x\"", "the body: must be an object"),
        ("", "name: is required"),
        (" \n ", "name: is required"),
        (
            "{\"name\":\"a\\u0000\",\"model\":\"full\"}",
            "name: must not contain the character U+0000",
        ),
        (
            "{\"name\":\"a\",\"model\":\"full\",\"x\":1,\"y\":2}",
            "x: unknown field (and 1 more)",
        ),
    ] {
        let told = send(body).await.refused(400);
        assert!(told.starts_with(words), "{body}: {told}");
    }
    let bytes = Request::builder()
        .method(Method::POST)
        .uri("/v1/agents")
        .header("x-api-key", KEY)
        .body(Body::from(&b"{\"name\":\"\xff\"}"[..]))
        .unwrap();
    has_form(&bench.ask(bytes).await, 400, "invalid_request_error");
}

#[tokio::test]
async fn nesting_without_end_is_refused() {
    let bench = Bench::new().await;
    let deep = "[".repeat(100_000);
    let reply = bench
        .ask(request(Method::POST, "/v1/agents", &[], &deep))
        .await;
    has_form(&reply, 400, "invalid_request_error");
}

#[tokio::test]
async fn unknown_parameters_are_named_everywhere() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let thread = bench
        .get(&format!("/v1/sessions/{session}/threads"))
        .await
        .ok();
    let thread = thread["data"][0]["id"].as_str().unwrap();
    let (agent, environment) = bench.home().await;
    for (method, path) in [
        (Method::GET, "/v1/agents".to_owned()),
        (Method::POST, "/v1/agents".to_owned()),
        (Method::GET, format!("/v1/agents/{agent}")),
        (Method::POST, format!("/v1/agents/{agent}")),
        (Method::POST, format!("/v1/agents/{agent}/archive")),
        (Method::GET, format!("/v1/agents/{agent}/versions")),
        (Method::GET, "/v1/environments".to_owned()),
        (Method::GET, format!("/v1/environments/{environment}")),
        (Method::DELETE, format!("/v1/environments/{environment}")),
        (Method::GET, "/v1/sessions".to_owned()),
        (Method::POST, "/v1/sessions".to_owned()),
        (Method::GET, format!("/v1/sessions/{session}")),
        (Method::DELETE, format!("/v1/sessions/{session}")),
        (Method::GET, format!("/v1/sessions/{session}/events")),
        (Method::POST, format!("/v1/sessions/{session}/events")),
        (Method::GET, format!("/v1/sessions/{session}/events/stream")),
        (Method::GET, format!("/v1/sessions/{session}/threads")),
        (
            Method::GET,
            format!("/v1/sessions/{session}/threads/{thread}"),
        ),
        (
            Method::GET,
            format!("/v1/sessions/{session}/threads/{thread}/events"),
        ),
        (
            Method::GET,
            format!("/v1/sessions/{session}/threads/{thread}/stream"),
        ),
    ] {
        let path = format!("{path}?colour=blue");
        let reply = bench.ask(request(method, &path, &[], "")).await;
        has_form(&reply, 400, "invalid_request_error");
        let words = reply.refused(400);
        assert!(
            words.starts_with("colour: unknown query parameter"),
            "{path}: {words}"
        );
    }
}

#[tokio::test]
async fn unknown_ids_are_404_whatever_their_form() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let real = "01".to_owned() + &"0".repeat(22);
    for id in [&*real, "x", "%20", "%ff", "%00", "a%2Fb", "sesn_01x"] {
        for path in [
            format!("/v1/agents/agent_{id}"),
            format!("/v1/agents/{id}"),
            format!("/v1/agents/agent_{id}/versions"),
            format!("/v1/environments/env_{id}"),
            format!("/v1/sessions/sesn_{id}"),
            format!("/v1/sessions/sesn_{id}/events"),
            format!("/v1/sessions/sesn_{id}/events?types[]=agent.mcp_tool_use"),
            format!("/v1/sessions/sesn_{id}/events/stream"),
            format!("/v1/sessions/sesn_{id}/threads"),
            format!("/v1/sessions/{session}/threads/sthr_{id}"),
            format!("/v1/sessions/{session}/threads/sthr_{id}/events"),
            format!("/v1/sessions/{session}/threads/sthr_{id}/stream"),
        ] {
            has_form(&bench.get(&path).await, 404, "not_found_error");
        }
        for path in [
            format!("/v1/agents/agent_{id}"),
            format!("/v1/agents/agent_{id}/archive"),
            format!("/v1/environments/env_{id}"),
            format!("/v1/environments/env_{id}/archive"),
            format!("/v1/sessions/sesn_{id}"),
            format!("/v1/sessions/sesn_{id}/archive"),
            format!("/v1/sessions/{session}/threads/sthr_{id}/archive"),
        ] {
            has_form(&bench.post(&path, json!({})).await, 404, "not_found_error");
        }
        let path = format!("/v1/sessions/sesn_{id}/events");
        let events = json!({ "events": [crate::bench::message("hi")] });
        has_form(&bench.post(&path, events).await, 404, "not_found_error");
        has_form(
            &bench.delete(&format!("/v1/sessions/sesn_{id}")).await,
            404,
            "not_found_error",
        );
        let gone = bench.delete(&format!("/v1/environments/env_{id}")).await;
        assert_eq!(
            gone.json()["error"]["details"]["error_code"],
            "environment_not_found"
        );
    }
    insta::assert_json_snapshot!(
        "unknown_agent",
        bench.get(&format!("/v1/agents/agent_{real}")).await.shown()
    );
    insta::assert_json_snapshot!(
        "unknown_environment",
        bench
            .get(&format!("/v1/environments/env_{real}"))
            .await
            .shown()
    );
    insta::assert_json_snapshot!(
        "unknown_session",
        bench
            .get(&format!("/v1/sessions/sesn_{real}"))
            .await
            .shown()
    );
    insta::assert_json_snapshot!(
        "unknown_thread",
        bench
            .get(&format!("/v1/sessions/{session}/threads/sthr_{real}"))
            .await
            .shown()
    );
}

#[tokio::test]
async fn too_large_a_body_is_413_and_one_at_the_limit_is_read() {
    let bench = Bench::new().await;
    let limit = 32 * 1024 * 1024;
    let fill = |size: usize| {
        let head = "{\"name\":\"a\",\"model\":\"full\",\"x\":\"";
        format!("{head}{}\"}}", "a".repeat(size - head.len() - 2))
    };
    let reply = bench
        .ask(request(Method::POST, "/v1/agents", &[], &fill(limit + 1)))
        .await;
    has_form(&reply, 413, "request_too_large");
    insta::assert_json_snapshot!("too_large", reply.shown());
    let reply = bench
        .ask(request(Method::POST, "/v1/agents", &[], &fill(limit)))
        .await;
    assert!(reply.refused(400).starts_with("x: unknown field"));
}

#[tokio::test]
async fn a_store_that_fails_is_503_and_says_when_to_come_back() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    bench.store.hook(|_, _, _| Fault::Before);
    let path = format!("/v1/sessions/{session}/events");
    let reply = bench
        .post(&path, json!({ "events": [crate::bench::message("hi")] }))
        .await;
    has_form(&reply, 503, "api_error");
    assert_eq!(reply.headers["retry-after"], "2");
    insta::assert_json_snapshot!("unavailable", reply.shown());
    bench.store.hook(|_, _, _| Fault::None);
    assert_eq!(bench.log(&session).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_panic_is_a_500_that_says_nothing() {
    let bench = Bench::new().await;
    async fn fall() -> &'static str {
        panic!("a secret")
    }
    let routes = Router::new()
        .route("/fall", get(fall))
        .route("/metrics", get(|| async { "m 1" }));
    let router = outlast_api::behind_key(&bench.kernel, routes);
    let ask =
        async |request: Request<Body>| whole(router.clone().oneshot(request).await.unwrap()).await;
    let reply = ask(request(Method::GET, "/fall", &[], "")).await;
    has_form(&reply, 500, "api_error");
    assert!(!reply.text.contains("secret"));
    insta::assert_json_snapshot!("panic", reply.shown());
    let reply = ask(request(Method::GET, "/metrics", &[], "")).await;
    assert_eq!((reply.status.as_u16(), &*reply.text), (200, "m 1"));
    assert!(reply.headers.contains_key("request-id"));
    has_form(
        &ask(bare("/metrics", &[])).await,
        401,
        "authentication_error",
    );
    has_form(
        &ask(request(Method::POST, "/metrics", &[], "")).await,
        405,
        "invalid_request_error",
    );
}

#[tokio::test]
async fn routes_behind_the_key_can_be_merged_into_the_api() {
    let bench = Bench::new().await;
    let routes = Router::new().route("/metrics", get(|| async { "m 1" }));
    let router = bench
        .router
        .clone()
        .merge(outlast_api::behind_key(&bench.kernel, routes));
    for (path, status) in [("/metrics", 200), ("/nothing", 404), ("/healthz", 200)] {
        let reply = router
            .clone()
            .oneshot(request(Method::GET, path, &[], ""))
            .await
            .unwrap();
        assert_eq!(reply.status().as_u16(), status, "{path}");
        assert!(reply.headers().contains_key("request-id"));
    }
}

#[tokio::test]
async fn health_is_open_and_says_little() {
    let bench = Bench::new().await;
    for path in ["/healthz", "/readyz"] {
        let reply = bench.ask(bare(path, &[])).await;
        assert_eq!(
            (reply.status.as_u16(), &*reply.text),
            (200, r#"{"status":"ok"}"#)
        );
        assert!(reply.headers.contains_key("request-id"));
    }
    bench.shutdown.cancel();
    assert_eq!(bench.ask(bare("/healthz", &[])).await.status, 200);
    let reply = bench.ask(bare("/readyz", &[])).await;
    has_form(&reply, 503, "api_error");
    assert!(reply.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn posts_and_deletes_may_come_without_a_body_and_not_with_a_foreign_one() {
    let bench = Bench::new().await;
    let session = bench.session().await;
    let archive = format!("/v1/sessions/{session}/archive");
    let words = bench.post(&archive, json!({ "x": 1 })).await.refused(400);
    assert!(words.starts_with("x: unknown field"), "{words}");
    bench.poke(&archive).await.ok();
    bench.post(&archive, json!({})).await.ok();
    bench.delete(&format!("/v1/sessions/{session}")).await.ok();
}

#[tokio::test]
async fn head_answers_like_get_without_a_body() {
    let bench = Bench::new().await;
    let reply = bench
        .ask(request(Method::HEAD, "/v1/agents", &[], ""))
        .await;
    assert_eq!((reply.status.as_u16(), &*reply.text), (200, ""));
}
