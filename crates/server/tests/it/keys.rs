//! Keys of clients, by the command line: with a server and without one.

use std::{fs, path::Path};

use serde_json::Value;

use crate::support::{Binary, Output, outlast};

/// Runs `outlast keys`.
async fn keys(dir: &Path, arguments: &[&str]) -> Output {
    Output::of(outlast(dir).arg("keys").args(arguments)).await
}

/// Makes a key; returns its id and its secret.
async fn made(dir: &Path, name: &str, scope: &str) -> (String, String) {
    let arguments = ["create", name, "--scope", scope, "--json"];
    let made = keys(dir, &arguments).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let key: Value = serde_json::from_str(&made.out).unwrap();
    let text = |field: &str| key[field].as_str().unwrap().to_owned();
    (text("id"), text("key"))
}

/// Lists sessions under a key.
async fn looks(dir: &Path, key: &str) -> Output {
    let mut command = outlast(dir);
    command
        .env("OUTLAST_API_KEY", key)
        .args(["sessions", "list"]);
    Output::of(&mut command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_admin_is_made_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let made_first = keys(at, &["create", "boss", "--scope", "admin"]).await;
    assert_eq!(made_first.code, Some(0), "{made_first:?}");
    let secret = made_first.out.trim().to_owned();
    assert!(secret.starts_with("outlast_"), "alone, for scripts");
    assert!(made_first.err.contains("apikey_01") && !made_first.err.contains(&secret));
    let (gone, gone_secret) = made(at, "gone", "admin").await;
    assert_eq!(keys(at, &["revoke", &gone]).await.code, Some(0));
    let server = Binary::start(at, None).await;
    assert_eq!(looks(at, &secret).await.code, Some(0));
    assert_eq!(looks(at, &gone_secret).await.code, Some(1));
    assert!(server.stop().await.success());
    let listed = keys(at, &["list"]).await.out;
    assert!(
        listed.contains("boss") && !listed.contains("gone"),
        "{listed}"
    );
    let listed = keys(at, &["list", "--revoked"]).await.out;
    assert!(
        listed.contains("gone") && listed.contains("revoked"),
        "{listed}"
    );
    assert!(!listed.contains(&secret[8..]) && !listed.contains(&gone_secret[8..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_makes_and_revokes_keys() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let server = Binary::start(at, None).await;
    let (id, reader) = made(at, "reader", "read-only").await;
    assert_eq!(looks(at, &reader).await.code, Some(0));
    let mut command = outlast(at);
    command
        .env("OUTLAST_API_KEY", &reader)
        .args(["keys", "create", "more", "--scope", "admin"]);
    let refused = Output::of(&mut command).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("`admin`"), "{refused:?}");
    let revoked = keys(at, &["revoke", &id]).await;
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert_eq!(looks(at, &reader).await.code, Some(1), "at once");
    let wrong = keys(at, &["create", "x", "--scope", "root"]).await;
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("`read-only`"), "{wrong:?}");
    assert!(server.stop().await.success());
    // Nothing that was printed once lies anywhere.
    let log = fs::read_to_string(at.join("server.log")).unwrap();
    assert!(!log.contains(&reader[8..]));
    let database = fs::read(at.join("outlast.db")).unwrap();
    let secret = &reader.as_bytes()[8..];
    assert!(
        !database
            .windows(secret.len())
            .any(|window| window == secret)
    );
}

/// Lists the audit log, the oldest first.
async fn audit(dir: &Path, arguments: &[&str]) -> Vec<Value> {
    let mut command = outlast(dir);
    command.args(["audit", "--json"]).args(arguments);
    let listed = Output::of(&mut command).await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let lines = listed.out.lines().rev();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_made_and_revoked_keys_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let (first, _) = made(at, "first", "admin").await;
    let server = Binary::start(at, None).await;
    let (second, _) = made(at, "second", "read-only").await;
    keys(at, &["revoke", &second]).await;
    let told = |entries: &[Value]| {
        let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or("-").to_owned();
        // What every test server is given to keep is in the log too.
        let own = |entry: &&Value| !text(entry, "action").contains("/v1/vaults");
        let each = entries.iter().filter(own).map(|entry| {
            (
                text(entry, "action"),
                text(entry, "subject_id"),
                text(entry, "outcome"),
            )
        });
        each.collect::<Vec<_>>()
    };
    let expected = [
        ("keys.create", &first, "-"),
        ("POST /outlast/v1/keys", &second, "done"),
        ("POST /outlast/v1/keys/{key_id}/revoke", &second, "done"),
    ];
    let expected =
        expected.map(|(action, id, outcome)| (action.to_owned(), id.clone(), outcome.to_owned()));
    let mut found = Vec::new();
    // Outcomes come a moment later.
    for _ in 0..50 {
        found = told(&audit(at, &[]).await);
        if found == expected {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(found, expected);
    assert!(server.stop().await.success());
    assert_eq!(
        told(&audit(at, &[]).await),
        expected,
        "without a server too"
    );
    let cli = audit(at, &["--actor", "cli"]).await;
    assert_eq!(cli.len(), 1, "{cli:?}");
    assert_eq!(audit(at, &["--subject", &second]).await.len(), 2);
    assert_eq!(
        audit(at, &["--since", "2999-01-01T00:00:00Z"]).await.len(),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_of_the_server_itself_stays_revoked() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let own = |listed: &str| {
        let row = listed.lines().find(|line| line.ends_with(" local"));
        row.and_then(|row| row.split_whitespace().next())
            .map(str::to_owned)
    };
    let server = Binary::start(at, None).await;
    let before = fs::read_to_string(at.join("local.key")).unwrap();
    let listed = keys(at, &["list"]).await.out;
    let id = own(&listed).unwrap_or_else(|| panic!("{listed}"));
    let warned = keys(at, &["revoke", &id]).await;
    assert_eq!(warned.code, Some(2), "{warned:?}");
    let told = warned
        .err
        .contains("this machine's command line is refused without it")
        && warned.err.contains("--yes");
    assert!(told, "{warned:?}");
    assert_eq!(looks(at, before.trim()).await.code, Some(0));
    assert_eq!(keys(at, &["revoke", "--yes", &id]).await.code, Some(0));
    assert_eq!(looks(at, before.trim()).await.code, Some(1));
    assert!(server.stop().await.success());
    let server = Binary::start(at, None).await;
    let after = fs::read_to_string(at.join("local.key")).unwrap();
    assert_ne!(before, after, "this machine got another one");
    assert_eq!(looks(at, after.trim()).await.code, Some(0));
    assert_eq!(looks(at, before.trim()).await.code, Some(1));
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_key_that_was_revoked_is_not_started_with() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let (id, secret) = made(at, "configured later", "read-only").await;
    assert_eq!(keys(at, &["revoke", &id]).await.code, Some(0));
    let mut command = Binary::command(at);
    command.env("OUTLAST_API_KEY", &secret).arg("serve");
    let refused = Output::of(&mut command).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains(&id) && refused.err.contains("revoked"));
    assert!(!refused.err.contains(&secret) && !refused.out.contains(&secret));
}
