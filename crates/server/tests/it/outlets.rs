//! The network of sandboxes, from a program inside to a registry outside that the configuration opens.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    extract::State,
    http::{HeaderName, StatusCode, Uri, header::CONTENT_TYPE},
};
use outlast_server::client::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{Binary, Does as _, TestServer, said, until};

/// Where registries are: loopback, but no address that programs take for their own machine.
pub(crate) const PLACE: &str = "127.0.0.2";

/// Makes a Python package, an npm package, a git repository and a Debian repository below a folder.
const REGISTRY: &str = r#"
cd "$0"
mkdir -p simple/greet npm deb
python3 - <<'END'
import zipfile
info = "greet-1.0.dist-info/"
with zipfile.ZipFile("simple/greet/greet-1.0-py3-none-any.whl", "w") as out:
    out.writestr("greet.py", "WORD = 'hello'\n")
    out.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n")
    out.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    out.writestr(info + "RECORD", "")
END
echo '<a href="greet-1.0-py3-none-any.whl">greet-1.0-py3-none-any.whl</a>' > simple/greet/index.html
mkdir -p p/package && cd p && echo '{"name": "tiny-greet", "version": "1.0.0"}' > package/package.json
echo 'module.exports = "hello"' > package/index.js && tar -czf ../npm/tiny-greet.tgz package && cd ..
git init -q -b main work && cd work && git config user.email a@example.com && git config user.name a
echo hello > word && git add word && git commit -qm word && cd .. && git clone -q --bare work repo.git
git -C repo.git update-server-info
: > deb/Packages
echo hello > word
"#;

/// A file with its type.
type Page = ([(HeaderName, &'static str); 1], Vec<u8>);

/// A registry at work.
#[derive(Clone, Debug)]
struct Registry {
    dir: PathBuf,
    at: SocketAddr,
    asked: Arc<AtomicUsize>,
}

/// Starts a registry that serves files over HTTP, and the packages of one npm name.
async fn registry(dir: &Path) -> Registry {
    let made = Command::new("bash")
        .args(["-ec", REGISTRY])
        .arg(dir)
        .status();
    assert!(made.unwrap().success());
    let listener = TcpListener::bind((PLACE, 0)).await.unwrap();
    let registry = Registry {
        dir: dir.to_owned(),
        at: listener.local_addr().unwrap(),
        asked: Arc::default(),
    };
    let router = Router::new().fallback(answer).with_state(registry.clone());
    #[expect(clippy::disallowed_methods, reason = "ends with the test")]
    tokio::spawn(axum::serve(listener, router).into_future());
    registry
}

async fn answer(State(registry): State<Registry>, uri: Uri) -> Result<Page, StatusCode> {
    registry.asked.fetch_add(1, Ordering::Relaxed);
    let path = uri.path().trim_start_matches('/');
    if path == "npm/tiny-greet" {
        let tarball = format!("http://{}/npm/tiny-greet.tgz", registry.at);
        let version =
            json!({"name": "tiny-greet", "version": "1.0.0", "dist": {"tarball": tarball}});
        let about = json!({"name": "tiny-greet", "dist-tags": {"latest": "1.0.0"},
            "versions": {"1.0.0": version}});
        return Ok((
            [(CONTENT_TYPE, "application/json")],
            about.to_string().into_bytes(),
        ));
    }
    let file = match path.ends_with('/') {
        true => format!("{path}index.html"),
        false => path.to_owned(),
    };
    let kind = match file.ends_with(".html") {
        true => "text/html",
        false => "application/octet-stream",
    };
    let read = std::fs::read(registry.dir.join(file));
    read.map(|bytes| ([(CONTENT_TYPE, kind)], bytes))
        .map_err(|_| StatusCode::NOT_FOUND)
}

/// Makes a session in an environment of that networking.
pub(crate) async fn session(client: &Client, networking: Value) -> (String, String) {
    let body = json!({"name": "place", "config": {"type": "cloud", "networking": networking}});
    let environment = client.post("/v1/environments", &body).await.unwrap();
    let more = json!({"environment_id": environment["id"]});
    let session = client.session_of(more).await;
    let text = |value: &Value| value["id"].as_str().unwrap().to_owned();
    (text(&session), text(&environment))
}

/// Plays one turn of one command; returns what came of it.
pub(crate) async fn ran(client: &Client, session: &str, command: &str, turn: usize) -> String {
    said(&client.ran(session, command, turn).await)
        .trim()
        .to_owned()
}

/// Each program's own way to fetch something; no proxy and no authority is named in any.
fn fetches(at: SocketAddr) -> Vec<(&'static str, String)> {
    vec![
        ("curl", format!("curl -sS http://{at}/word")),
        (
            "pip",
            format!(
                "pip install -q --break-system-packages --user --index-url http://{at}/simple greet \
                 2>&1 && python3 -c 'import greet; print(greet.WORD)'"
            ),
        ),
        (
            "npm",
            format!(
                "mkdir -p n && cd n && npm install --silent --no-audit --registry http://{at}/npm tiny-greet \
                 && node -p 'require(\"tiny-greet\")'"
            ),
        ),
        (
            "git",
            format!("git clone -q http://{at}/repo.git clone && cat clone/word"),
        ),
        (
            "apt-get",
            format!(
                "mkdir -p /tmp/a/lists/partial /tmp/a/cache/archives/partial && \
                 echo 'deb [trusted=yes] http://{at}/deb ./' > /tmp/a/sources.list && \
                 apt-get -qq -o Dir::Etc::SourceList=/tmp/a/sources.list -o Dir::Etc::SourceParts=/nowhere \
                 -o Dir::State::Lists=/tmp/a/lists -o Dir::Cache=/tmp/a/cache -o Dir::State::Status=/dev/null \
                 -o APT::Sandbox::User= -o APT::Update::Error-Mode=any update && echo hello"
            ),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_reach_a_registry_that_is_open_without_a_setting() {
    let dir = tempfile::tempdir().unwrap();
    let Registry { at, .. } = registry(dir.path()).await;
    let server = TestServer::start_with(|config| {
        config.egress.open = vec![at.to_string()];
    })
    .await;
    let client = server.client();
    let (session, _) = session(client, json!({"type": "unrestricted"})).await;
    for (turn, (program, command)) in fetches(at).into_iter().enumerate() {
        if !Path::new("/usr/bin").join(program).exists() && program != "pip" {
            continue;
        }
        let told = ran(client, &session, &command, turn + 1).await;
        assert_eq!(told.lines().last(), Some("hello"), "{program}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_open_says_which_line_would_open_it() {
    let dir = tempfile::tempdir().unwrap();
    let Registry { at, .. } = registry(dir.path()).await;
    let server = TestServer::start_with(|_| {}).await;
    let client = server.client();
    let (session, environment) = session(client, json!({"type": "unrestricted"})).await;
    let told = ran(client, &session, &format!("curl -sS http://{at}/word"), 1).await;
    assert!(told.contains(&format!("open = [\"{at}\"]")), "{told}");
    // What knows no proxy reaches nobody, and neither does this server's own port.
    let own = server.server().address();
    let direct = format!("curl -sS --noproxy '*' --max-time 5 http://{at}/word; echo $?");
    let told = ran(client, &session, &direct, 2).await;
    assert!(told.ends_with('7') || told.ends_with("28"), "{told}");
    let told = ran(
        client,
        &session,
        &format!("curl -sS --proxy $http_proxy --noproxy '' http://{own}/healthz"),
        3,
    )
    .await;
    assert!(told.contains("[egress]"), "{told}");

    // A change of the environment holds for the next sandbox, not for this one.
    let limited = json!({"config": {"type": "cloud", "networking": {"type": "limited"}}});
    let path = format!("/v1/environments/{environment}");
    client.post(&path, &limited).await.unwrap();
    let told = ran(client, &session, &format!("curl -sS http://{at}/word"), 4).await;
    assert!(told.contains("[egress]"), "the same as before: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_whose_server_died_goes_on_and_is_served_by_the_next() {
    let (dir, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, registry) = (dir.path(), registry(files.path()).await);
    let at = registry.at;
    let file = format!("[egress]\nopen = [\"{at}\"]\n");
    std::fs::write(dir.join("outlast.toml"), file).unwrap();
    let server = Binary::start(dir, None).await;
    let key = std::fs::read_to_string(dir.join("local.key")).unwrap();
    let (session, _) = session(&server.client, json!({"type": "unrestricted"})).await;
    let loop_ = format!(
        "(while sleep 0.1; do curl -s -m 30 http://{at}/word >> got; done) > /dev/null 2>&1 & echo $!"
    );
    let process = ran(&server.client, &session, &loop_, 1).await;
    let asked = || registry.asked.load(Ordering::Relaxed);
    until("it to be served", async || (asked() > 2).then_some(())).await;
    server.kill().await;
    let before = asked();
    let server = Binary::start(dir, Some(key.trim())).await;
    // Nobody has called anything yet.
    until("it to be served again", async || {
        (asked() > before + 2).then_some(())
    })
    .await;
    let still = format!("kill {process} && sort -u got");
    assert_eq!(ran(&server.client, &session, &still, 2).await, "hello");
    assert!(server.stop().await.success());
}
