//! Something of every kind, which the ids in the document's examples stand for.

use std::collections::BTreeMap;

use axum::body::Body;
use http::Method;
use serde_json::{Value, json};

use super::document::Operation;
use crate::bench::{Bench, Reply, id, request};

/// What ids of examples end with.
const EXAMPLE: &str = "010000000000000000000001";

/// A bench with something of every kind.
pub(crate) struct Scene {
    pub(crate) bench: Bench,
    /// By the prefixes of their ids.
    ids: BTreeMap<&'static str, String>,
    /// By their types.
    credentials: BTreeMap<String, String>,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let bench = Bench::new().await;
        let (agent, environment) = bench.home().await;
        let file = id(&bench.upload("a.txt", "text/plain", b"hello").await);
        let vault = bench
            .post("/v1/vaults", json!({ "display_name": "v" }))
            .await;
        let vault = id(&vault.ok());
        let key = json!({ "name": "k", "scope": "read-only" });
        let key = id(&bench.post("/outlast/v1/keys", key).await.ok());
        let session = json!({
            "agent": agent, "environment_id": environment, "vault_ids": [vault],
            "resources": [
                { "type": "file", "file_id": file },
                {
                    "type": "github_repository", "url": "https://git.example.com/o/r",
                    "authorization_token": "t",
                },
            ],
        });
        let session = bench.post("/v1/sessions", session).await.ok();
        let resources = session["resources"].as_array().unwrap();
        let repository = resources
            .iter()
            .find(|one| one["type"] == "github_repository");
        let repository = id(repository.unwrap());
        let session = id(&session);
        let event = bench.say(&session, "hello").await;
        let threads = bench
            .get(&format!("/v1/sessions/{session}/threads"))
            .await
            .ok();
        let credentials = credentials(&bench, &vault).await;
        let ids = BTreeMap::from([
            ("agent_", agent),
            ("apikey_", key),
            ("env_", environment),
            ("file_", file),
            ("sesn_", session),
            ("sesrsc_", repository),
            ("sevt_", event),
            ("sthr_", id(&threads["data"][0])),
            ("vcrd_", credentials["mcp_oauth"].clone()),
            ("vlt_", vault),
        ]);
        Self {
            bench,
            ids,
            credentials,
        }
    }

    /// Puts what there is in the place of what an example names.
    pub(crate) fn fill(&self, example: &Value) -> Value {
        let mut text = example.to_string().replace(r#""scripted""#, r#""full""#);
        for (prefix, id) in &self.ids {
            text = text.replace(&format!("{prefix}{EXAMPLE}"), id);
        }
        serde_json::from_str(&text).unwrap()
    }

    /// Returns the path of an operation, for the example of this name.
    pub(crate) fn path(&self, template: &str, example: &str) -> String {
        let mut path = template.to_owned();
        for (parameter, prefix) in [
            ("agent_id", "agent_"),
            ("credential_id", "vcrd_"),
            ("environment_id", "env_"),
            ("file_id", "file_"),
            ("key_id", "apikey_"),
            ("resource_id", "sesrsc_"),
            ("session_id", "sesn_"),
            ("thread_id", "sthr_"),
            ("vault_id", "vlt_"),
        ] {
            let mut id = &self.ids[prefix];
            if let (Some(other), "credential_id") = (self.credentials.get(example), parameter) {
                id = other;
            }
            path = path.replace(&format!("{{{parameter}}}"), id);
        }
        path.replace("{model_id}", "scripted")
    }

    /// Asks an operation with a body.
    pub(crate) async fn ask(
        &self,
        operation: Operation<'_>,
        example: &str,
        body: Vec<u8>,
    ) -> Reply {
        let method: Method = operation.method.to_uppercase().parse().unwrap();
        let path = self.path(operation.path, example);
        let mut request = request(method, &path, &[], "");
        *request.body_mut() = Body::from(body);
        self.bench.ask(request).await
    }
}

/// Makes a credential of each type; returns their ids.
async fn credentials(bench: &Bench, vault: &str) -> BTreeMap<String, String> {
    let url = "https://mcp.example.org/mcp";
    let refresh = json!({
        "client_id": "c", "refresh_token": "r", "token_endpoint": "https://login.example.org/t",
        "token_endpoint_auth": { "type": "client_secret_post", "client_secret": "s" },
    });
    let mut made = BTreeMap::new();
    for auth in [
        json!({ "type": "mcp_oauth", "mcp_server_url": url, "access_token": "t", "refresh": refresh }),
        json!({ "type": "static_bearer", "mcp_server_url": "https://a.example.org", "token": "t" }),
        json!({
            "type": "environment_variable", "secret_name": "A", "secret_value": "s",
            "networking": { "type": "unrestricted" },
        }),
    ] {
        let path = format!("/v1/vaults/{vault}/credentials");
        let one = bench.post(&path, json!({ "auth": auth })).await.ok();
        made.insert(auth["type"].as_str().unwrap().to_owned(), id(&one));
    }
    made
}
