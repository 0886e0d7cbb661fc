//! The routes and methods of the router are those of the document.

use std::{collections::BTreeSet, sync::Arc};

use axum::Router;
use http::{Method, StatusCode};
use outlast_api::{Api, Beside, Bounds};
use outlast_egress::Front;
use outlast_model::Facts;
use outlast_protocol::{
    ErrorCode,
    facts::{ModelFacts, Models},
};
use outlast_session::Kind;
use regex::Regex;
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

use super::Document;
use crate::bench::{Bench, KEY, request, whole};

/// Answered by the binary alone.
const BINARY: &str = "/metrics";

#[derive(Debug)]
struct NoModels;

impl Models for NoModels {
    fn facts(&self, _: &str) -> Option<ModelFacts> {
        None
    }
}

/// Makes the router as the binary does.
async fn router() -> (Bench, Router) {
    let bench = Bench::new().await;
    let facts = Arc::new(Facts::load(None).unwrap());
    let front = Front::new(bench.kernel.clone(), facts, None);
    let api = Api {
        kernel: bench.kernel.clone(),
        vault: Arc::new(bench.vault.clone()),
        models: Arc::new(NoModels),
        leaving: CancellationToken::new(),
        shutdown: CancellationToken::new(),
        tasks: TaskTracker::new(),
        ping: outlast_api::PING,
        bounds: Bounds::default(),
    };
    let beside = Beside {
        clients: front.clients(),
        others: front.brains(),
    };
    let router = outlast_api::router_beside(api, beside);
    (bench, router)
}

/// Tells what a router answers without a body.
async fn asked(router: &Router, method: Method, path: &str) -> (StatusCode, Value) {
    let request = request(method, path, &[("x-api-key", KEY)], "");
    let reply = whole(router.clone().oneshot(request).await.unwrap()).await;
    let body = serde_json::from_str(&reply.text).unwrap_or_default();
    (reply.status, body)
}

#[tokio::test]
async fn every_route_and_method_is_described_and_every_description_is_routed() {
    let (_bench, router) = router().await;
    // There is no other way to ask a router for its routes; one that shows none is found out below.
    let shown = format!("{router:?}");
    let paths = Regex::new(r#"RouteId\(\d+\): "(/[^"]*)""#).unwrap();
    let paths = paths.captures_iter(&shown).map(|found| found[1].to_owned());
    let mut routed = BTreeSet::new();
    for path in paths.collect::<BTreeSet<_>>() {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let named = path.replace(['{', '}', '*'], "");
            let (status, body) = asked(&router, method.parse().unwrap(), &named).await;
            let error = &body["error"];
            let words = error["message"].as_str().unwrap_or_default();
            // Parts that come later, and what answers where there is nothing.
            let nothing =
                error["details"]["error_code"] == "not_supported" || words.starts_with("path `");
            if status != StatusCode::METHOD_NOT_ALLOWED && !nothing {
                routed.insert(format!("{method} {path}"));
            }
        }
    }
    let described: BTreeSet<_> = Document::get()
        .operations()
        .into_iter()
        .filter(|operation| operation.path != BINARY)
        .map(|operation| format!("{} {}", operation.method.to_uppercase(), operation.path))
        .collect();
    assert_eq!(routed, described);
}

#[tokio::test]
async fn keys_are_asked_for_where_it_is_described() {
    let (_bench, router) = router().await;
    for operation in Document::get().operations() {
        if operation.path == BINARY {
            continue;
        }
        let request = http::Request::builder()
            .method(operation.method.to_uppercase().as_str())
            .uri(operation.path.replace(['{', '}'], ""));
        let request = request.body(axum::body::Body::empty()).unwrap();
        let reply = whole(router.clone().oneshot(request).await.unwrap()).await;
        let open = operation.of["security"] == json!([]);
        assert_eq!(
            reply.status != 401,
            open,
            "{} {}",
            operation.method,
            operation.path
        );
    }
}

#[tokio::test]
async fn the_document_is_served_as_it_is_and_of_this_version() {
    let bench = Bench::new().await;
    let served = bench.get("/openapi.json").await;
    assert_eq!(served.text, outlast_api::DOCUMENT);
    let version = &Document::get().whole()["info"]["version"];
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert_eq!(served.headers["content-type"], "application/json");
}

#[test]
fn errors_are_described_with_all_of_their_types_and_codes() {
    let document = Document::get().whole();
    let error = &document["components"]["schemas"]["Error"]["properties"]["error"]["properties"];
    let listed = |schema: &Value| -> BTreeSet<String> {
        let all = schema["enum"].as_array().unwrap().iter();
        all.map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let codes = ErrorCode::ALL.iter();
    let kinds: BTreeSet<_> = codes.clone().map(|code| code.kind().to_owned()).collect();
    assert_eq!(listed(&error["type"]), kinds);
    let details = codes.clone().filter_map(|code| code.detail());
    let details: BTreeSet<_> = details.map(str::to_owned).collect();
    let code = &error["details"]["properties"]["error_code"];
    assert_eq!(listed(code), details);
    let answers = document["components"]["responses"].as_object().unwrap();
    // A method that a path does not have is no operation, so nothing describes it.
    let statuses = codes
        .map(|code| code.status())
        .filter(|status| *status != 405);
    let statuses: BTreeSet<_> = statuses.collect();
    assert_eq!(
        answers.len(),
        statuses.len() + 2,
        "one for each, that of providers, and that of addresses which are too long"
    );
}

#[test]
fn every_event_that_is_made_is_described() {
    let event = &Document::get().whole()["components"]["schemas"]["Event"];
    let described = event["oneOf"].as_array().unwrap().iter();
    let described = described.map(|one| one["properties"]["type"]["const"].as_str().unwrap());
    let made = Kind::ALL.iter().filter(|kind| kind.is_public());
    let made = made.map(|kind| kind.text());
    assert_eq!(
        described.collect::<BTreeSet<_>>(),
        made.collect::<BTreeSet<_>>()
    );
}
