//! Packages of environments, from the API to the shell.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use outlast_server::client::Client;
use serde_json::{Value, json};

use crate::support::{
    Binary, Does as _, TestServer, bash, host, leftovers, of, said, script, signal, until,
};

/// Writes wheels of one module each: `greet` 1.0 and 2.0.
const WHEELS: &str = r#"
import sys, zipfile
for version in ["1.0", "2.0"]:
    info = f"greet-{version}.dist-info/"
    with zipfile.ZipFile(f"{sys.argv[1]}/greet-{version}-py3-none-any.whl", "w") as out:
        out.writestr("greet.py", f"WORD = 'hello {version}'\n")
        out.writestr(info + "METADATA", f"Metadata-Version: 2.1\nName: greet\nVersion: {version}\n")
        out.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(info + "RECORD", "")
"#;

const GREET: &str = "python3 -c 'import greet; print(greet.WORD)'";

/// Makes a mirror of Python packages.
fn mirror(dir: &Path) -> PathBuf {
    let mirror = dir.join("mirror");
    fs::create_dir(&mirror).unwrap();
    python(WHEELS, &mirror);
    mirror
}

fn python(program: &str, mirror: &Path) {
    let python = Command::new("/usr/bin/python3")
        .args(["-c", program])
        .arg(mirror)
        .status();
    assert!(python.unwrap().success());
}

fn environment(packages: &Value) -> Value {
    json!({"name": "place", "config": {"type": "cloud", "packages": packages}})
}

/// Makes an environment with Python packages.
async fn place(client: &Client, pip: &[&str]) -> String {
    let body = environment(&json!({"pip": pip}));
    let made = client.post("/v1/environments", &body).await.unwrap();
    assert_eq!(made["config"]["packages"]["pip"], json!(pip));
    made["id"].as_str().unwrap().to_owned()
}

/// Makes a session in an environment.
async fn session(client: &Client, environment: &str) -> String {
    let more = json!({"environment_id": environment});
    let session = client.session_of(more).await;
    session["id"].as_str().unwrap().to_owned()
}

/// Plays one turn of one command; returns its result and what the model said then.
async fn ran(client: &Client, session: &str, command: &str, turn: usize) -> (Value, String) {
    let steps = json!([bash(command), {"text": "the end"}]);
    client.send(session, &[script(steps)]).await;
    let events = client.idle(session, turn).await;
    let result = (*of(&events, "agent.tool_result").last().unwrap()).clone();
    let last = of(&events, "agent.message");
    (result, said(last.last().unwrap()).to_owned())
}

async fn greeted(client: &Client, session: &str, turn: usize) -> String {
    let (result, _) = ran(client, session, GREET, turn).await;
    assert_eq!(result["is_error"], false, "{result}");
    said(&result).trim().to_owned()
}

/// The layers that are there, and when each was made.
fn layers(dir: &Path) -> Vec<(PathBuf, SystemTime)> {
    let entries = fs::read_dir(dir.join("layers")).unwrap();
    let mut found: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let made = fs::metadata(path.join("tree")).unwrap().modified().unwrap();
            (path, made)
        })
        .collect();
    found.sort_unstable();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn packages_are_there_in_every_sandbox_and_after_a_restart_without_installing() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, mirror) = (dir.path(), mirror(dir.path()));
    let command = || {
        let mut command = Binary::command(dir);
        command.env("OUTLAST__HANDS__PACKAGES__PIP", &mirror);
        command
    };
    let server = Binary::start_as(&mut command(), dir, None).await;
    let key = fs::read_to_string(dir.join("local.key")).unwrap();
    let client = &server.client;
    let environment = place(client, &["greet==1.0"]).await;
    let first = session(client, &environment).await;
    assert_eq!(greeted(client, &first, 1).await, "hello 1.0");
    let made = layers(dir);
    assert_eq!(made.len(), 1);
    // The host of the sandboxes ends too: the next one finds what this one installed.
    assert!(server.stop().await.success());
    let server = Binary::start_as(&mut command(), dir, Some(key.trim())).await;
    let client = &server.client;
    assert_eq!(greeted(client, &first, 2).await, "hello 1.0");
    let second = session(client, &environment).await;
    assert_eq!(greeted(client, &second, 1).await, "hello 1.0");
    assert_eq!(layers(dir), made, "nothing was installed again");
    let installs = "outlast_hands_package_installs_total";
    let figures = client.text("/metrics").await.unwrap();
    assert!(!figures.contains(installs), "{figures}");
    // The next sandbox has what the environment says by then.
    let path = format!("/v1/environments/{environment}");
    let body = json!({"config": {"type": "cloud", "packages": {"pip": ["greet==2.0"]}}});
    client.post(&path, &body).await.unwrap();
    let third = session(client, &environment).await;
    assert_eq!(greeted(client, &third, 1).await, "hello 2.0");
    assert_eq!(greeted(client, &second, 2).await, "hello 1.0");
    assert_eq!(layers(dir).len(), 2);
    // Counted in the process that has the sandboxes, shown by the server.
    let figures = client.text("/metrics").await.unwrap();
    let line = format!("{installs}{{outcome=\"done\"}} 1");
    assert!(figures.contains(&line), "{figures}");
    // A mirror that went: an error to the model, and the conversation goes on.
    let other = place(client, &["greet"]).await;
    fs::remove_dir_all(&mirror).unwrap();
    let fourth = session(client, &other).await;
    let (result, last) = ran(client, &fourth, GREET, 1).await;
    assert_eq!(result["is_error"], true, "{result}");
    let words = said(&result);
    assert!(words.contains("install the pip packages"), "{words}");
    assert!(words.contains("mend the line `pip = "), "{words}");
    assert_eq!(last, "the end");
    let again = client
        .post(
            "/v1/environments",
            &self::environment(&json!({"pip": ["greet"]})),
        )
        .await;
    let words = again.unwrap_err().to_string();
    assert!(words.contains("is not there"), "{words}");
    assert!(server.stop().await.success());
}

/// Writes a source distribution that says that it is being built, and never is.
const STUCK: &str = r#"
import io, sys, tarfile
files = {
    "PKG-INFO": "Metadata-Version: 2.1\nName: greet\nVersion: 3.0\n",
    "pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'odd'\nbackend-path = ['.']\n",
    "odd.py": "import time; open('/.packages/tmp/mark', 'w'); time.sleep(9999)",
}
with tarfile.open(f"{sys.argv[1]}/greet-3.0.tar.gz", "w:gz") as out:
    for path, text in files.items():
        info = tarfile.TarInfo("greet-3.0/" + path); info.size = len(text)
        out.addfile(info, io.BytesIO(text.encode()))
"#;

/// Looks for an installation in the middle of a build.
fn is_building(dir: &Path) -> bool {
    let entries = fs::read_dir(dir.join("layers"));
    let mut parts = entries.into_iter().flatten().flatten();
    parts.any(|entry| entry.path().join("box/upper/.packages/tmp/mark").exists())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_whose_host_is_killed_is_done_again_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, mirror) = (dir.path(), mirror(dir.path()));
    python(STUCK, &mirror);
    let mut command = Binary::command(dir);
    command.env("OUTLAST__HANDS__PACKAGES__PIP", &mirror);
    let server = Binary::start_as(&mut command, dir, None).await;
    let client = &server.client;
    let session = session(client, &place(client, &["greet"]).await).await;
    client
        .send(
            &session,
            &[script(json!([bash(GREET), {"text": "the end"}]))],
        )
        .await;
    until("the build", async || is_building(dir).then_some(())).await;
    fs::remove_file(mirror.join("greet-3.0.tar.gz")).unwrap();
    signal(host::pid(dir).unwrap(), "KILL").await;
    let events = client.idle(&session, 1).await;
    let results = of(&events, "agent.tool_result");
    assert_eq!(results.len(), 1, "{results:?}");
    assert_eq!(said(results[0]).trim(), "hello 2.0", "{}", results[0]);
    until("what was left to be swept", async || {
        (fs::read_dir(dir.join("layers")).unwrap().count() == 1).then_some(())
    })
    .await;
    assert!(server.stop().await.success());
    assert_eq!(leftovers::processes(dir), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_had_is_refused_and_what_has_no_mirror_is_not() {
    let server = TestServer::start().await;
    let client = server.client();
    for (manager, item, words) in [
        ("apt", "jq", "over an image alone"),
        ("pip", "--index-url=x", "must be a package such as"),
    ] {
        let body = environment(&json!({ manager: [item] }));
        let refused = client.post("/v1/environments", &body).await;
        let told = refused.unwrap_err().to_string();
        assert!(told.contains(words), "{told}");
        assert!(
            told.contains(&format!("config.packages.{manager}")),
            "{told}"
        );
    }
    let limited = json!({"name": "place", "config": {"type": "cloud",
        "networking": {"type": "limited"}, "packages": {"pip": ["six"]}}});
    let refused = client.post("/v1/environments", &limited).await;
    let told = refused.unwrap_err().to_string();
    assert!(told.contains("allow_package_managers"), "{told}");
    let made = client
        .post("/v1/environments", &environment(&json!({"pip": ["six"]})))
        .await;
    assert_eq!(made.unwrap()["config"]["packages"]["pip"], json!(["six"]));
}
