//! Secrets through a whole server: swept from what agents show, and kept under a master key that can be
//! missing, wrong, or another one.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use outlast_server::client::{Client, Error};
use serde_json::{Value, json};

use crate::{
    files::{content, outputs},
    support::{Binary, Does as _, Output, TestServer, bash, guard::PLANTED, of, outlast, script},
};

const SECRET: &str = "value-that-nobody-may-see/1";

const WRONG: &str = "100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Makes a vault with a variable in it; returns its id.
async fn vault(client: &Client) -> String {
    let vault = client
        .post("/v1/vaults", &json!({"display_name": "v"}))
        .await
        .unwrap();
    let id = vault["id"].as_str().unwrap().to_owned();
    client
        .post(&credentials(&id), &variable("TOKEN"))
        .await
        .unwrap();
    id
}

fn credentials(vault: &str) -> String {
    format!("/v1/vaults/{vault}/credentials")
}

fn variable(name: &str) -> Value {
    json!({"auth": {
        "type": "environment_variable", "secret_name": name, "secret_value": SECRET,
        "networking": {"type": "limited", "allowed_hosts": ["api.example.com"]},
    }})
}

/// Makes a session that uses a vault.
async fn session(client: &Client, vault: &str) -> String {
    let session = client.session_of(json!({"vault_ids": [vault]})).await;
    session["id"].as_str().unwrap().to_owned()
}

/// Prints the secret in every form that is looked for, and leaves it in a file. It is put together from
/// parts, so that it stands nowhere in what the agent was told.
const SHOW: &str = r#"a=value-that; s="$a-nobody-may-see/1"; mkdir -p /mnt/session/outputs
printf '<%s>\n' "$s"; printf %s "xy$s" | base64; printf %s "$s" | od -An -v -tx1 | tr -d ' \n'; echo
head -c 70000 /dev/zero | tr '\0' x > /mnt/session/outputs/a.txt; printf %s "$s" >> /mnt/session/outputs/a.txt
head -c 70000 /dev/zero | tr '\0' y >> /mnt/session/outputs/a.txt
mkdir "/mnt/session/outputs/${s%/*}"; echo > "/mnt/session/outputs/$s.txt"; echo "is $TOKEN end""#;

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_shows_of_a_secret_is_marked() {
    let server = TestServer::start().await;
    let client = server.client();
    let vault = vault(client).await;
    let with = session(client, &vault).await;
    let without = client.session("scripted").await;
    for session in [&with, &without] {
        let steps = json!([bash(SHOW), {"text": "{{results}}"}]);
        client.send(session, &[script(steps)]).await;
    }
    let events = client.idle(&with, 1).await;
    let result = of(&events, "agent.tool_result")[0].to_string();
    assert!(
        result.contains("<[secret TOKEN removed]>") && result.contains("end"),
        "{result}"
    );
    assert!(result.contains("is outlast_placeholder_"), "{result}");
    assert_eq!(
        result.matches("[secret TOKEN removed]").count(),
        3,
        "{result}"
    );
    assert!(!Value::from(events).to_string().contains(SECRET));
    let files = outputs(client, &with).await;
    assert_eq!(files[0].0, "[secret TOKEN removed].txt");
    assert!(!files[0].1.to_string().contains(SECRET));
    let bytes = content(client, &files[1].1).await;
    let text = String::from_utf8(bytes).unwrap();
    let expected = [
        &"x".repeat(70_000),
        "[secret TOKEN removed]",
        &"y".repeat(70_000),
    ]
    .concat();
    assert!(text == expected, "{} bytes", text.len());
    // Another session's secrets are none of this one's business.
    let events = client.idle(&without, 1).await;
    let result = of(&events, "agent.tool_result")[0].to_string();
    assert!(result.contains(SECRET), "{result}");
}

/// The API key that the first start left.
fn local_key(dir: &Path) -> String {
    let key = fs::read_to_string(dir.join("local.key")).unwrap();
    key.trim().to_owned()
}

/// Runs `outlast vault`.
async fn cli(dir: &Path, arguments: &[&str]) -> Output {
    Output::of(outlast(dir).arg("vault").args(arguments)).await
}

async fn held(dir: &Path) -> Vec<(String, bool, u64)> {
    let found = cli(dir, &["status", "--json"]).await;
    let found: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(found["trouble"], Value::Null);
    let keys = found["keys"].as_array().unwrap().iter();
    let key = |key: &Value| {
        let name = key["name"].as_str().unwrap().to_owned();
        (
            name,
            key["current"] == true,
            key["records"].as_u64().unwrap(),
        )
    };
    keys.map(key).collect()
}

fn lines(dir: &Path) -> usize {
    let path = dir.join("master.key");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    fs::read_to_string(path).unwrap().lines().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_key_is_changed_while_the_server_serves_and_a_kill_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let vault = vault(&server.client).await;
    let before = held(dir.path()).await;
    // The credential, and the root, beside those that every test server has.
    let sealed = 2 + PLANTED;
    assert_eq!((before.len(), before[0].2), (1, sealed));
    let done = cli(dir.path(), &["rotate-master-key"]).await;
    assert!(
        done.code == Some(0) && done.out.contains(&format!("brought  {sealed} secrets")),
        "{done:?}"
    );
    let after = held(dir.path()).await;
    assert_eq!((after[0].2, after[1].2, lines(dir.path())), (sealed, 0, 2));
    assert!(after[0].0 != before[0].0 && after[1].0 == before[0].0);
    server
        .client
        .post(&credentials(&vault), &variable("OTHER"))
        .await
        .unwrap();
    server.kill().await;
    let server = Binary::start(dir.path(), Some(&local_key(dir.path()))).await;
    crate::support::until("the old key to go", async || {
        (held(dir.path()).await.len() == 1).then_some(())
    })
    .await;
    assert_eq!(
        (held(dir.path()).await, lines(dir.path())),
        (vec![(after[0].0.clone(), true, sealed + 1)], 1)
    );
    // What is sealed can still be opened: an update opens it first.
    let list = server
        .client
        .list(&credentials(&vault), &[], 10)
        .await
        .unwrap();
    let path = format!(
        "{}/{}",
        credentials(&vault),
        list[0]["id"].as_str().unwrap()
    );
    let location =
        json!({"auth": {"type": "environment_variable", "injection_location": {"body": false}}});
    server.client.post(&path, &location).await.unwrap();
    let log = fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(!log.contains(SECRET));
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_master_key_all_is_served_that_needs_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let vault = vault(&server.client).await;
    assert!(server.stop().await.success());
    let mut command = Binary::command(dir.path());
    command.env("OUTLAST_MASTER_KEY", WRONG);
    let own = local_key(dir.path());
    let server = Binary::start_as(&mut command, dir.path(), Some(&own)).await;
    // One that names no vault: the others wait until their secrets can be opened.
    let session = server.client.session_of(json!({"vault_ids": []})).await;
    let id = session["id"].as_str().unwrap();
    server
        .client
        .send(id, &[script(json!([{"text": "hi"}]))])
        .await;
    server.client.idle(id, 1).await;
    let refused = server
        .client
        .post(&credentials(&vault), &variable("OTHER"))
        .await;
    let Err(Error::Refused {
        status, message, ..
    }) = refused
    else {
        panic!("{refused:?}");
    };
    assert!(
        status == 503 && message.contains("mk_"),
        "{status} {message}"
    );
    let doctor = Output::of(outlast(dir.path()).arg("doctor")).await;
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert_eq!(doctor.out.matches("mk_").count(), 2, "{doctor:?}");
    let log = fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert_eq!(log.matches("no secret can be used").count(), 1, "said once");
    assert!(!log.contains(WRONG) && !doctor.out.contains(WRONG));
    assert!(server.stop().await.success());
    // A lost file is missed, not made anew.
    let (key, elsewhere) = (dir.path().join("master.key"), tempfile::tempdir().unwrap());
    fs::rename(&key, elsewhere.path().join("kept")).unwrap();
    let server = Binary::start(dir.path(), Some(&own)).await;
    let status = cli(dir.path(), &["status"]).await;
    assert!(
        status.code == Some(1) && status.out.contains("OUTLAST_MASTER_KEY"),
        "{status:?}"
    );
    assert!(!key.exists());
    assert!(server.stop().await.success());
}
