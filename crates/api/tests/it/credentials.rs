//! Credentials of vaults.

use http::Method;
use outlast_vault::Content;
use serde_json::{Value, json};

use crate::bench::{Bench, Reply, Setup, id, request};

/// Stands for every secret: nothing that comes back may hold it, and nothing that is stored.
const CANARY: &str = "canary-9e8d7c6b5a";

fn bearer(url: &str) -> Value {
    json!({ "auth": { "type": "static_bearer", "mcp_server_url": url, "token": CANARY } })
}

fn variable(name: &str) -> Value {
    json!({ "auth": {
        "type": "environment_variable", "secret_name": name, "secret_value": CANARY,
        "networking": { "type": "limited", "allowed_hosts": ["api.example.com"] },
    } })
}

fn oauth(url: &str) -> Value {
    json!({ "auth": {
        "type": "mcp_oauth", "mcp_server_url": url, "access_token": CANARY,
        "expires_at": "2099-01-01T00:00:00Z",
        "refresh": {
            "client_id": "c", "refresh_token": CANARY, "token_endpoint": "https://login.example.com/t",
            "token_endpoint_auth": { "type": "client_secret_post", "client_secret": CANARY },
        },
    } })
}

async fn vault(bench: &Bench) -> String {
    let body = json!({ "display_name": "v" });
    let made = bench.post("/v1/vaults", body).await.ok();
    format!("/v1/vaults/{}/credentials", id(&made))
}

/// Posts with headers.
async fn post(bench: &Bench, path: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
    bench
        .ask(request(Method::POST, path, headers, &body.to_string()))
        .await
}

#[tokio::test]
async fn a_credential_lives() {
    let bench = Bench::new().await;
    let path = vault(&bench).await;
    let mut body = oauth("https://MCP.example.com/");
    body["display_name"] = json!("tracker");
    body["metadata"] = json!({ "k": "v" });
    let made = bench.post(&path, body).await;
    insta::assert_json_snapshot!("created", made.shown());
    assert!(!made.text.contains(CANARY));
    let one = format!("{path}/{}", id(&made.json()));
    assert_eq!(bench.get(&one).await.json(), made.json());
    assert_eq!(bench.post(&one, json!({})).await.json(), made.json());

    let change = json!({
        "display_name": null, "metadata": { "k": null },
        "auth": { "type": "mcp_oauth", "access_token": CANARY, "refresh": { "scope": "a" } },
    });
    let updated = bench.post(&one, change).await;
    insta::assert_json_snapshot!("updated", updated.shown());
    assert_eq!(bench.get(&one).await.json(), updated.json());
    assert_eq!(
        bench.get(&path).await.json()["data"],
        json!([updated.json()])
    );

    let archived = bench.poke(&format!("{one}/archive")).await;
    insta::assert_json_snapshot!("archived", archived.shown());
    assert_eq!(
        bench.poke(&format!("{one}/archive")).await.json(),
        archived.json()
    );
    let told = bench
        .post(&one, json!({ "display_name": "x" }))
        .await
        .refused(400);
    assert!(
        told.ends_with("is archived and cannot be changed"),
        "{told}"
    );
    let deleted = bench.delete(&one).await;
    insta::assert_json_snapshot!("deleted", deleted.shown());
    for gone in [bench.get(&one).await, bench.delete(&one).await] {
        assert!(gone.refused(404).starts_with("credential `vcrd_01"));
    }
}

#[tokio::test]
async fn one_key_is_one_active_credentials() {
    let bench = Bench::new().await;
    let path = vault(&bench).await;
    let url = "https://mcp.example.com/mcp";
    let first = id(&bench.post(&path, bearer(url)).await.ok());
    let again = bench
        .post(&path, oauth("https://mcp.example.com:443/mcp/"))
        .await;
    assert_eq!(again.headers["x-should-retry"], "false");
    assert_eq!(
        again.refused(409),
        format!(
            "auth.mcp_server_url: credential `{first}` of this vault has it already; update that one, or \
             archive it first"
        )
    );
    bench.post(&vault(&bench).await, bearer(url)).await.ok();
    bench.poke(&format!("{path}/{first}/archive")).await.ok();
    bench.post(&path, bearer(url)).await.ok();
    for number in 0..19 {
        bench
            .post(&path, variable(&format!("V{number}")))
            .await
            .ok();
    }
    let told = bench.post(&path, variable("V19")).await.refused(400);
    assert!(told.contains("has 20 active credentials"), "{told}");
}

#[tokio::test]
async fn a_vault_takes_its_credentials_with_it() {
    let bench = Bench::new().await;
    let path = vault(&bench).await;
    let owner = path.strip_suffix("/credentials").unwrap();
    for name in ["A", "B", "C"] {
        bench.post(&path, variable(name)).await.ok();
    }
    let listed = bench.get(&path).await.ok();
    let ids: Vec<String> = listed["data"].as_array().unwrap().iter().map(id).collect();
    bench.poke(&format!("{path}/{}/archive", ids[0])).await.ok();
    let sealed = async || bench.kernel.secrets().secrets(None, 99).await.unwrap();
    let owners = async || {
        sealed()
            .await
            .into_iter()
            .map(|one| one.owner)
            .collect::<Vec<_>>()
    };
    let before = owners().await;
    assert!(!before.contains(&ids[0]) && before.contains(&ids[1]));

    let archived = bench.poke(&format!("{owner}/archive")).await.ok();
    let after = owners().await;
    assert!(
        ids.iter().all(|id| !after.contains(id)),
        "the secrets are gone"
    );
    assert_eq!(bench.get(&path).await.ok()["data"], json!([]));
    let all = bench
        .get(&format!("{path}?include_archived=true"))
        .await
        .ok();
    let all = all["data"].as_array().unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(all[2]["archived_at"], archived["archived_at"]);
    assert_ne!(
        all[0]["archived_at"], archived["archived_at"],
        "it went before"
    );
    let told = bench.post(&path, variable("D")).await.refused(400);
    assert!(
        told.ends_with("is archived and takes no new credentials"),
        "{told}"
    );
    bench.delete(owner).await.ok();
    for id in ids {
        assert_eq!(bench.get(&format!("{path}/{id}")).await.status, 404);
    }
    assert!(
        bench
            .get(&path)
            .await
            .refused(404)
            .starts_with("vault `vlt_01")
    );
}

#[tokio::test]
async fn lists_have_pages_of_one_vault() {
    let bench = Bench::new().await;
    let (path, other) = (vault(&bench).await, vault(&bench).await);
    let mut all = Vec::new();
    for number in 0..5 {
        all.push(id(&bench
            .post(&path, variable(&format!("V{number}")))
            .await
            .ok()));
    }
    bench.post(&other, variable("V0")).await.ok();
    let ids = |page: &Value| {
        let data = page["data"].as_array().unwrap().iter();
        data.map(id).collect::<Vec<_>>()
    };
    let first = bench.get(&format!("{path}?limit=3")).await.ok();
    assert_eq!(ids(&first), [&*all[4], &*all[3], &*all[2]]);
    let next = first["next_page"].as_str().unwrap();
    let last = bench.get(&format!("{path}?page={next}")).await.ok();
    assert_eq!(
        (ids(&last), &last["next_page"]),
        (vec![all[1].clone(), all[0].clone()], &Value::Null)
    );
    let told = bench
        .get(&format!("{other}?page={next}"))
        .await
        .refused(400);
    assert_eq!(
        told,
        "page: is a cursor of the credentials of another object"
    );
    let elsewhere = bench.get(&format!("{other}/{}", all[0])).await;
    assert!(elsewhere.refused(404).starts_with("credential `vcrd_01"));
}

#[tokio::test]
async fn a_repeat_is_answered_as_its_original_was() {
    let bench = Bench::new().await;
    let path = vault(&bench).await;
    let body = variable("A");
    let lost = post(&bench, &path, &[("idempotency-key", "k")], &body)
        .await
        .ok();
    let again = post(&bench, &path, &[("idempotency-key", "k")], &body).await;
    assert_eq!(again.headers["idempotent-replayed"], "true");
    assert_eq!(again.json(), lost);
    let other = post(&bench, &path, &[("idempotency-key", "k")], &variable("B")).await;
    assert!(other.refused(400).starts_with("Idempotency-Key: was used"));
    assert_eq!(
        bench.get(&path).await.ok()["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn many_changes_at_once_lose_none() {
    let bench = Bench::new().await;
    let path = vault(&bench).await;
    let made = bench.post(&path, variable("A")).await.ok();
    let one = format!("{path}/{}", id(&made));
    let change = |number: usize| {
        json!({
            "metadata": { format!("k{number}"): "v" },
            "auth": { "type": "environment_variable", "secret_value": format!("{CANARY}{number}") },
        })
    };
    let changes = (0..8).map(|number| bench.post(&one, change(number)));
    for changed in futures::future::join_all(changes).await {
        changed.ok();
    }
    let metadata = bench.get(&one).await.ok()["metadata"].clone();
    assert_eq!(metadata.as_object().unwrap().len(), 8);
    let secret = bench
        .kernel
        .secrets()
        .secret(&id(&made))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(secret.revision, 9, "each brought a secret of its own");
}

#[tokio::test]
async fn a_renewal_shows_and_is_not_lost_by_an_update() {
    let bench = Bench::new().await;
    let path = vault(&bench).await;
    let made = bench
        .post(&path, oauth("https://mcp.example.com"))
        .await
        .ok();
    let one = format!("{path}/{}", id(&made));
    let renewed = renew(&bench, &id(&made)).await;
    let shown = bench.get(&one).await.ok();
    assert_eq!(shown["auth"]["expires_at"], "2100-01-01T00:00:00.000000Z");
    assert_eq!(
        shown["updated_at"], made["updated_at"],
        "nobody changed the credential"
    );
    assert_eq!(bench.get(&path).await.ok()["data"], json!([shown]));

    let scope = json!({ "auth": { "type": "mcp_oauth", "refresh": { "scope": "a" } } });
    let updated = bench.post(&one, scope).await.ok();
    assert_eq!(updated["auth"]["expires_at"], shown["auth"]["expires_at"]);
    let secret = bench
        .kernel
        .secrets()
        .secret(&id(&made))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(secret.revision, 3);
    let Content::McpOauth {
        access_token,
        refresh,
        ..
    } = bench.vault.open(&secret).unwrap()
    else {
        panic!("it is an OAuth credential");
    };
    assert_eq!(access_token.expose(), renewed);
    let refresh = refresh.unwrap();
    assert_eq!(
        (refresh.refresh_token.expose(), refresh.scope.as_deref()),
        (CANARY, Some("a"))
    );
    let archived = bench.poke(&format!("{one}/archive")).await.ok();
    assert_eq!(archived["auth"], updated["auth"]);
}

/// Does what a renewal does: seals another access token, and nothing else.
async fn renew(bench: &Bench, owner: &str) -> &'static str {
    const NEW: &str = "renewed-token";
    let secrets = bench.kernel.secrets();
    let held = secrets.secret(owner).await.unwrap().unwrap();
    let Content::McpOauth { url, refresh, .. } = bench.vault.open(&held).unwrap() else {
        panic!("it is an OAuth credential");
    };
    let content = Content::McpOauth {
        url,
        access_token: NEW.into(),
        expires_at: outlast_protocol::Micros::parse("2100-01-01T00:00:00Z"),
        refresh,
    };
    let sealed = bench
        .vault
        .seal(owner, &held.parent, held.revision + 1, &content)
        .unwrap();
    assert!(secrets.replace_secret(sealed).await.unwrap());
    NEW
}

#[tokio::test]
async fn only_oauth_can_be_validated() {
    let bench = Bench::new().await;
    let path = vault(&bench).await;
    let made = bench
        .post(&path, bearer("https://mcp.example.com"))
        .await
        .ok();
    let one = format!("{path}/{}/mcp_oauth_validate", id(&made));
    let told = bench.poke(&one).await.refused(400);
    assert!(
        told.ends_with("is `static_bearer`; `mcp_oauth` alone can be validated"),
        "{told}"
    );
    // Nobody answers at that port.
    let made = bench
        .post(&path, oauth("http://127.0.0.1:9/mcp"))
        .await
        .ok();
    let one = format!("{path}/{}", id(&made));
    let tried = bench.poke(&format!("{one}/mcp_oauth_validate")).await;
    insta::assert_json_snapshot!("validated", tried.shown());
    let why = tried.headers["outlast-reason"].to_str().unwrap();
    assert!(why.contains("Connection refused"), "{why}");
    // Nobody opened that address.
    let closed = bench.post(&path, oauth("http://10.9.8.7/mcp")).await.ok();
    let closed = format!("{path}/{}/mcp_oauth_validate", id(&closed));
    let tried = bench.poke(&closed).await;
    let why = tried.headers["outlast-reason"].to_str().unwrap();
    assert!(
        why.starts_with("`10.9.8.7` is at 10.9.8.7, a private address"),
        "{why}"
    );
    assert_eq!(tried.ok()["status"], "unknown");
    bench.poke(&format!("{one}/archive")).await.ok();
    let told = bench
        .poke(&format!("{one}/mcp_oauth_validate"))
        .await
        .refused(400);
    assert!(told.ends_with("is archived; its secret is gone"), "{told}");
}

#[tokio::test]
async fn without_a_master_key_nothing_is_accepted_and_the_rest_is_served() {
    let bench = Bench::with(Setup {
        locked: true,
        ..Setup::default()
    })
    .await;
    let path = vault(&bench).await;
    let reply = bench.post(&path, bearer("https://mcp.example.com")).await;
    assert_eq!(reply.headers["x-should-retry"], "false");
    assert_eq!(
        reply.json()["error"]["details"]["error_code"],
        "vault_locked"
    );
    let told = reply.refused(503);
    assert!(
        told.contains("OUTLAST_MASTER_KEY") && !told.contains(CANARY),
        "{told}"
    );
    assert_eq!(bench.get(&path).await.ok()["data"], json!([]));
    bench.session().await;
}
