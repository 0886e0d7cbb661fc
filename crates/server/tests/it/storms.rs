//! Short storms, by the command with which users have longer ones.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use serde_json::Value;
use tempfile::TempDir;
use tokio::{process::Command, time::timeout};

use crate::support::{Output, outlast, signal, until};

/// How long a storm may take until it has come to rest, on a machine under load.
const LONGEST: Duration = Duration::from_secs(280);

/// Makes a folder that the user of a database can pass too.
fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
    dir
}

fn torture(dir: &Path) -> Command {
    let mut command = outlast(dir);
    command.arg("torture").arg("--dir").arg(dir);
    command
}

/// Plays a storm, and returns its report.
async fn storm(dir: &Path, more: &[&str]) -> Value {
    let mut command = torture(dir);
    command.args(["--sessions", "14", "--kills", "8", "--readers", "6"]);
    command
        .args(["--seconds", "12", "--seed", "4", "--json"])
        .args(more);
    let output = timeout(LONGEST, command.output()).await;
    let output = output.expect("the storm comes to rest").unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = serde_json::from_str(&text).expect(&words);
    assert_eq!(report["violations"], Value::Array(Vec::new()), "{report}");
    assert_eq!(output.status.code(), Some(0), "{words}");
    report
}

/// A storm that did nothing proves nothing.
fn was_one(report: &Value) {
    let kills = report["kills"].as_object().unwrap();
    let kills: u64 = kills.values().filter_map(Value::as_u64).sum();
    assert_eq!(kills, 8, "{report}");
    for figure in ["accepted", "turns", "records", "events_read", "sent_again"] {
        assert!(report[figure].as_u64() > Some(0), "{figure}: {report}");
    }
    assert_eq!(
        (report["verified"].as_u64(), report["readers"].as_u64()),
        (Some(14), Some(6))
    );
    assert!(report["outcomes"]["done"].as_u64() > Some(0), "{report}");
}

fn empty(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_on_sqlite_loses_nothing() {
    let dir = folder();
    was_one(&storm(dir.path(), &[]).await);
    empty(dir.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_on_postgres_loses_nothing() {
    let dir = folder();
    was_one(&storm(dir.path(), &["--own-postgres"]).await);
    empty(dir.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_that_is_interrupted_leaves_nothing() {
    let dir = folder();
    let mut child = torture(dir.path())
        .args(["--seconds", "600"])
        .spawn()
        .unwrap();
    until("the storm to begin", async || {
        let mut entries = fs::read_dir(dir.path()).unwrap().flatten();
        let inner = entries.find(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("outlast-torture")
        })?;
        inner.path().join("data/local.url").exists().then_some(())
    })
    .await;
    signal(child.id().unwrap(), "INT").await;
    let ended = timeout(LONGEST, child.wait())
        .await
        .expect("it ends")
        .unwrap();
    assert_eq!(ended.code(), Some(130));
    empty(dir.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_that_cannot_begin_says_why() {
    let dir = folder();
    let nowhere = dir.path().join("nowhere");
    let nowhere = nowhere.to_str().unwrap();
    let away = "postgres://u:canary@%2Fnowhere/d";
    for (arguments, code, words) in [
        (&["--dir", nowhere][..], 2, "cannot make a folder"),
        (&["--database-url", away], 1, "no database can be made"),
        (&["--database-url"], 2, "no `database.url` is configured"),
        (&["--sessions", "0"], 2, "--sessions"),
        (
            &["--victims", "server,database"],
            2,
            "there is no database to be killed",
        ),
        (&["--victims", "clients"], 2, "hand-host"),
        (
            &["--own-postgres", "--database-url", away],
            2,
            "cannot be used with",
        ),
    ] {
        let said = Output::of(outlast(dir.path()).arg("torture").args(arguments)).await;
        assert_eq!(said.code, Some(code), "{arguments:?}: {}", said.err);
        assert!(said.err.contains(words), "{arguments:?}: {}", said.err);
        assert!(!said.err.contains("canary"), "{}", said.err);
    }
    empty(dir.path());
}
