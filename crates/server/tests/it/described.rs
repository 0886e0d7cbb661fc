//! The document of the API, from a whole server and from the command line.

use std::collections::BTreeSet;

use reqwest::{Client, Method, StatusCode};
use serde_json::Value;

use crate::support::{Output, TestServer, outlast};

/// Methods that an operation may have.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

#[tokio::test(flavor = "multi_thread")]
async fn the_document_needs_a_key_and_every_operation_of_it_is_routed() {
    let server = TestServer::start().await;
    let http = Client::builder().no_proxy().build().unwrap();
    let ask = |method: &str, path: &str| {
        let method: Method = method.to_uppercase().parse().unwrap();
        http.request(method, format!("{}{path}", server.server().url()))
    };
    let closed = ask("get", "/openapi.json").send().await.unwrap();
    assert_eq!(closed.status(), StatusCode::UNAUTHORIZED);
    let asked = ask("get", "/openapi.json").header("x-api-key", server.key());
    let document: Value = asked.send().await.unwrap().json().await.unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        let described: BTreeSet<&str> = METHODS
            .into_iter()
            .filter(|&one| item.get(one).is_some())
            .collect();
        let mut routed = BTreeSet::new();
        for method in METHODS {
            let named = path.replace(['{', '}'], "");
            let asked = ask(method, &named).header("x-api-key", server.key());
            let status = asked.send().await.unwrap().status();
            if status != StatusCode::METHOD_NOT_ALLOWED {
                routed.insert(method);
            }
        }
        assert_eq!(routed, described, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_prints_the_document_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let printed = Output::of(outlast(dir.path()).arg("openapi")).await;
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    let document: Value = serde_json::from_str(&printed.out).unwrap();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
}
