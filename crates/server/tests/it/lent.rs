//! What is lent to sandboxes and never given: variables of vaults, and tokens of repositories.

use std::path::Path;

use axum::{Router, http::HeaderMap, routing::get};
use outlast_server::client::Client;
use serde_json::{Value, json};

use crate::support::{Does as _, TestServer, of, repositories::Repositories, said, secure};

/// A token like those of hosts of repositories.
const TOKEN: &str = "tok-canary-4fd1c2a98b7e";

async fn made(client: &Client, path: &str, body: Value) -> String {
    let made = client.post(path, &body).await.unwrap();
    made["id"].as_str().unwrap().to_owned()
}

/// Plays one turn of one command; returns what came of it.
async fn ran(client: &Client, session: &Value, command: &str, turn: usize) -> String {
    let id = session["id"].as_str().unwrap();
    said(&client.ran(id, command, turn).await).trim().to_owned()
}

async fn server(authorities: &Path, at: &str) -> TestServer {
    TestServer::start_with(|config| {
        config.egress.open = vec![at.to_owned()];
        config.egress.authorities = Some(authorities.to_owned());
    })
    .await
}

/// Asserts that a secret is in no record and no file of a server.
async fn nowhere(server: &TestServer, session: &Value, secret: &str) {
    let id = session["id"].as_str().unwrap();
    let events = server.client().events(id).await;
    assert!(!json!(events).to_string().contains(secret));
    let shown = server
        .client()
        .get(&format!("/v1/sessions/{id}"), &[])
        .await;
    assert!(!shown.unwrap().to_string().contains(secret));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_is_a_placeholder_inside_and_itself_at_its_host() {
    let dir = tempfile::tempdir().unwrap();
    let echo = |headers: HeaderMap| async move {
        let key = headers.get("x-key").map(|key| key.as_bytes().to_vec());
        let sum: u64 = key.iter().flatten().map(|byte| u64::from(*byte)).sum();
        format!(
            "{} {sum}\n",
            key.map(|key| String::from_utf8(key).unwrap())
                .unwrap_or_default()
        )
    };
    let authorities = dir.path().join("ca.pem");
    let at = secure::serve(Router::new().route("/", get(echo)), &authorities).await;
    let server = server(&authorities, &at.to_string()).await;
    let client = server.client();
    let vault = made(client, "/v1/vaults", json!({"display_name": "mine"})).await;
    let auth = json!({"type": "environment_variable", "secret_name": "API_KEY", "secret_value": TOKEN,
        "networking": {"type": "limited", "allowed_hosts": [at.ip().to_string()]}});
    let credential = made(
        client,
        &format!("/v1/vaults/{vault}/credentials"),
        json!({"auth": auth}),
    )
    .await;
    let session = client.session_of(json!({"vault_ids": [vault]})).await;

    let inside = ran(
        client,
        &session,
        "echo $API_KEY; env | grep -c canary || true",
        1,
    )
    .await;
    assert!(inside.starts_with("outlast_placeholder_"), "{inside}");
    assert!(inside.ends_with("\n0"), "{inside}");
    // The host got the value; what it says of it comes back as the placeholder.
    let ask = format!("curl -sS -H \"x-key: $API_KEY\" https://{at}/");
    let said = ran(client, &session, &ask, 2).await;
    let sum: u64 = TOKEN.bytes().map(u64::from).sum();
    let placeholder = inside.lines().next().unwrap();
    assert_eq!(said, format!("{placeholder} {sum}"));

    // A rotation reaches the sandbox that lives; an archived credential is none.
    let path = format!("/v1/vaults/{vault}/credentials/{credential}");
    let next = "tok-canary-of-another-day";
    let update = json!({"auth": {"type": "environment_variable", "secret_value": next}});
    client.post(&path, &update).await.unwrap();
    let said = ran(client, &session, &ask, 3).await;
    let sum: u64 = next.bytes().map(u64::from).sum();
    assert_eq!(said, format!("{placeholder} {sum}"));
    // An archived vault lends nothing, TLS stays closed then, and the session goes on.
    let archive = format!("/v1/vaults/{vault}/archive");
    client.post(&archive, &json!({})).await.unwrap();
    let said = ran(client, &session, &ask.replace("-sS", "-sSk"), 4).await;
    let sum: u64 = placeholder.bytes().map(u64::from).sum();
    assert_eq!(said, format!("{placeholder} {sum}"));
    for secret in [TOKEN, next] {
        nowhere(&server, &session, secret).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sandbox_sets_itself_is_no_name_of_a_credential() {
    let server = TestServer::start().await;
    let client = server.client();
    let vault = made(client, "/v1/vaults", json!({"display_name": "mine"})).await;
    let path = format!("/v1/vaults/{vault}/credentials");
    let auth = |name: &str| {
        json!({"auth": {"type": "environment_variable", "secret_name": name, "secret_value": TOKEN,
            "networking": {"type": "unrestricted"}}})
    };
    made(client, &path, auth("API_KEY")).await;
    let session = client.session_of(json!({"vault_ids": [vault]})).await;
    let others = "for name in $(compgen -e); do \
                  case ${!name} in outlast_placeholder_*) ;; *) echo $name ;; esac; done";
    let others = ran(client, &session, others, 1).await;
    assert!(
        others.lines().any(|name| name == "SSL_CERT_FILE"),
        "{others}"
    );
    for name in others.lines() {
        let refused = client.post(&path, &auth(name)).await.err();
        let status = refused.and_then(|error| error.status());
        assert_eq!(status, Some(400), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_for_a_host_that_the_environment_forbids_is_told_and_the_session_goes_on() {
    let server = TestServer::start().await;
    let client = server.client();
    let vault = made(client, "/v1/vaults", json!({"display_name": "mine"})).await;
    let path = format!("/v1/vaults/{vault}/credentials");
    let add = async |name: &str, networking: Value| {
        let auth = json!({"type": "environment_variable", "secret_name": name, "secret_value": TOKEN,
            "networking": networking});
        made(client, &path, json!({ "auth": auth })).await
    };
    let limited = |host: &str| json!({"type": "limited", "allowed_hosts": [host]});
    add("ANYWHERE", json!({"type": "unrestricted"})).await;
    add("ALLOWED", limited("*.example.com")).await;
    let forbidden = add("FORBIDDEN", limited("api.example.org")).await;
    let networking = json!({"type": "limited", "allowed_hosts": ["api.example.com"]});
    let place = json!({"name": "place", "config": {"type": "cloud", "networking": networking}});
    let place = made(client, "/v1/environments", place).await;
    let more = json!({"vault_ids": [vault], "environment_id": place});
    let session = client.session_of(more).await;
    for turn in 1..=2 {
        assert_eq!(ran(client, &session, "echo on", turn).await, "on");
    }
    let events = client.events(session["id"].as_str().unwrap()).await;
    let errors = of(&events, "session.error");
    let [error] = errors.as_slice() else {
        panic!("one error: {errors:?}");
    };
    let error = &error["error"];
    assert_eq!(error["type"], "credential_host_unreachable_error");
    assert_eq!(error["credential_id"], json!(forbidden));
    assert_eq!(error["vault_id"], json!(vault));
    assert_eq!(error["retry_status"]["type"], "retrying");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("api.example.org")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn repositories_are_cloned_pulled_and_pushed_with_a_token_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let repositories = Repositories::new(dir.path());
    let commit = repositories.make("one", TOKEN);
    repositories.make("two", "another-canary-token");
    let authorities = dir.path().join("ca.pem");
    let at = secure::serve(repositories.router(), &authorities).await;
    let server = server(&authorities, &at.to_string()).await;
    let client = server.client();
    let url = |name: &str| format!("https://{at}/o/{name}");
    let wish = |more: Value| {
        let mut wish =
            json!({"type": "github_repository", "url": url("one"), "authorization_token": TOKEN});
        for (name, value) in more.as_object().unwrap() {
            wish[name] = value.clone();
        }
        wish
    };
    let resources = json!([
        wish(json!({})),
        wish(
            json!({"mount_path": "/workspace/b", "checkout": {"type": "branch", "name": "other"}})
        ),
        wish(json!({"mount_path": "/workspace/c", "checkout": {"type": "commit", "sha": commit}})),
    ]);
    let session = client.session_of(json!({ "resources": resources })).await;
    assert!(!session.to_string().contains(TOKEN), "{session}");

    let words = ran(
        client,
        &session,
        "cat one/word b/word c/word; git -C one remote get-url origin",
        1,
    )
    .await;
    assert_eq!(words, format!("main\nother\nmain\n{}", url("one")));
    let push = "cd one && git config user.email a@example.com && git config user.name a && \
                echo pushed > word && git commit -qam pushed && git push -q 2>&1; git rev-parse HEAD; cd ..";
    let head = ran(client, &session, push, 2).await;
    assert_eq!(head, repositories.tip("one", "main"));

    // Another repository of that host is not opened by it, whatever the path looks like.
    let clones = ["two", "one/../two", "one/%2e%2e/two"].map(|path| {
        format!(
            "GIT_TERMINAL_PROMPT=0 git clone -q {} other 2>&1; echo $?",
            url(path)
        )
    });
    let said = ran(client, &session, &clones.join("; "), 3).await;
    assert!(!said.lines().any(|line| line == "0"), "{said}");
    let asked = repositories.asked();
    let of_two = asked.iter().filter(|(path, _)| path.contains("/two"));
    assert!(
        of_two.clone().all(|(_, given)| given.is_none()),
        "{asked:?}"
    );
    assert!(of_two.count() > 0);

    // Another token: what ran on goes on with it, whichever of its resources it was sent for.
    let resource = session["resources"][1]["id"].as_str().unwrap();
    let id = session["id"].as_str().unwrap();
    let path = format!("/v1/sessions/{id}/resources/{resource}");
    let next = "tok-canary-after-rotation";
    repositories.open("one", next);
    let rotated = client
        .post(&path, &json!({"authorization_token": next}))
        .await
        .unwrap();
    assert_ne!(rotated["updated_at"], rotated["created_at"]);
    let said = ran(client, &session, "git -C one pull -q 2>&1; echo $?", 4).await;
    assert_eq!(said, "0");
    // What a host told of it, in whatever words, is marked.
    let show = "a=tok-canary; printf '<%s>' \"$a-after-rotation\"";
    let said = ran(client, &session, show, 5).await;
    assert!(said.starts_with("<[secret sesrsc_"), "{said}");
    let search = "grep -rlsa tok-canary /workspace /tmp /home /etc /var /mnt /proc/self/environ | head -3; \
                  env | grep -c tok-canary || true";
    let found = ran(client, &session, search, 6).await;
    assert_eq!(found, "0");
    for secret in [TOKEN, next] {
        nowhere(&server, &session, secret).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_the_network_does_not_allow_is_told_with_what_would_allow_it() {
    let server = TestServer::start_with(|config| {
        config.egress.open = vec!["10.1.0.0/16".to_owned()];
    })
    .await;
    let client = server.client();
    let told = async |networking: Value, at: &str| {
        let place = json!({"name": "place", "config": {"type": "cloud", "networking": networking}});
        let place = made(client, "/v1/environments", place).await;
        let wish = json!({"type": "github_repository", "url": format!("https://{at}/o/r"),
            "authorization_token": TOKEN});
        let more = json!({"environment_id": place, "resources": [wish]});
        let session = client.session_of(more).await;
        assert_eq!(
            ran(client, &session, "ls /workspace; echo on", 1).await,
            "on"
        );
        let events = client.events(session["id"].as_str().unwrap()).await;
        assert!(!json!(events).to_string().contains(TOKEN));
        let errors = of(&events, "session.error").into_iter();
        let mut errors = errors.map(|event| &event["error"]);
        let error = errors.find(|error| error["type"] == "repository_clone_error");
        let message = &error.unwrap()["message"];
        message.as_str().unwrap().to_owned()
    };
    let limited = json!({"type": "limited", "allowed_hosts": ["other.example.com"]});
    let words = told(limited, "git.example.com").await;
    let end = "; the answer was: 403 host `git.example.com` is refused: the environment's networking is \
               `limited` and does not allow it; add `git.example.com` to its `allowed_hosts`";
    assert!(words.ends_with(end), "{words}");
    let words = told(json!({"type": "unrestricted"}), "10.2.0.1:8443").await;
    assert!(
        words.contains("`10.2.0.1` is at 10.2.0.1, a private address"),
        "{words}"
    );
    let end =
        "by adding \"10.2.0.1:8443\" to what `open` has already, below `[egress]` in outlast.toml";
    assert!(words.ends_with(end), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_cloned_is_one_of_five_errors_and_the_session_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let repositories = Repositories::new(dir.path());
    // A session has one token for a repository, so each case has its own.
    for name in ["none", "wrong", "branch", "commit"] {
        repositories.make(name, TOKEN);
    }
    let authorities = dir.path().join("ca.pem");
    let at = secure::serve(repositories.router(), &authorities).await;
    let server = server(&authorities, &at.to_string()).await;
    let client = server.client();
    let wish = |name: &str, more: Value| {
        let mut wish =
            json!({"type": "github_repository", "url": format!("https://{at}/o/{name}")});
        for (name, value) in more.as_object().unwrap() {
            wish[name] = value.clone();
        }
        wish
    };
    let resources = json!([
        wish("none", json!({"mount_path": "/workspace/none"})),
        wish(
            "wrong",
            json!({"mount_path": "/workspace/wrong", "authorization_token": "tok-of-nobody"})
        ),
        wish("three", json!({})),
        wish(
            "branch",
            json!({"mount_path": "/workspace/branch", "authorization_token": TOKEN,
            "checkout": {"type": "branch", "name": "nowhere"}})
        ),
        wish(
            "commit",
            json!({"mount_path": "/workspace/commit", "authorization_token": TOKEN,
            "checkout": {"type": "commit", "sha": "0123456789012345678901234567890123456789"}})
        ),
    ]);
    let session = client.session_of(json!({ "resources": resources })).await;
    let said = ran(client, &session, "ls /workspace | wc -l; echo on", 1).await;
    assert_eq!(said, "0\non");
    let events = client.events(session["id"].as_str().unwrap()).await;
    let kinds: Vec<_> = of(&events, "session.error")
        .into_iter()
        .map(|event| event["error"]["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds,
        [
            "repository_authentication_error",
            "repository_forbidden_error",
            "repository_not_found_error",
            "repository_checkout_error",
            "repository_checkout_error",
        ]
    );
    assert!(!json!(events).to_string().contains(TOKEN));
}
