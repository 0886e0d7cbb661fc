//! The egress under a user of its own: whoever owns the server's processes finds no secret in them.

use std::{
    fs,
    io::{Read as _, Seek as _, SeekFrom},
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use axum::{http::HeaderMap, routing::get};
use outlast_protocol::seam::Entropy as _;
use outlast_server::client::Client;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::support::{
    Binary, DEADLINE, Does as _, Output, guard::Guard, message, model, of, outlast,
    repositories::Repositories, said, secure, signal, until,
};

/// Users that no system has: of the server, and of its egress.
const USERS: (u32, u32) = (47_021, 47_022);

/// Two users on one machine.
struct Machine {
    folder: tempfile::TempDir,
}

/// Draws a secret that nothing else looks like.
fn canary(name: &str) -> String {
    let mut bytes = [0; 16];
    outlast_server::OsEntropy.fill(&mut bytes);
    let digits = bytes.map(|byte| format!("{byte:02x}"));
    format!("{name}-{}", digits.concat())
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let open = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        open(machine.folder.path());
        for (name, user) in [("server", USERS.0), ("egress", USERS.1), ("run", USERS.1)] {
            fs::create_dir(machine.path(name)).unwrap();
            open(&machine.path(name));
            chown(machine.path(name), Some(user), Some(user)).unwrap();
        }
        // The folder with the program may be closed to other users.
        fs::copy(env!("CARGO_BIN_EXE_outlast"), machine.path("outlast")).unwrap();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a command of the binary as a user, in a directory of its own; whose keys of models are set is
    /// the test's to say.
    fn command(&self, name: &str, user: u32, peer: u32) -> Command {
        let usual = Binary::command(&self.path(name));
        let set = usual.as_std().get_envs();
        let set = set.filter_map(|(name, value)| Some((name.to_str()?, value?)));
        let set = set.filter(|(name, _)| !name.starts_with("OUTLAST_UPSTREAM_"));
        let mut command = Command::new(self.path("outlast"));
        command
            .env_clear()
            .envs(set)
            .env("OUTLAST__EGRESS__SOCKET", self.path("run").join("e.sock"))
            .env("OUTLAST__EGRESS__PEER", peer.to_string())
            .uid(user)
            .gid(user)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Starts the egress process, and waits until it listens.
    async fn egress(&self, keys: &[(&str, &str)]) -> Child {
        let mut command = self.command("egress", USERS.1, USERS.0);
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("egress").join("log"));
        command
            .envs(keys.iter().copied())
            .args(["serve", "--roles", "egress"])
            .stderr(log.unwrap());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap();
        assert!(first.unwrap().contains("egress of a server of user 47021"));
        let socket = self.path("run").join("e.sock.outlets");
        until("the sockets", async || socket.exists().then_some(())).await;
        child
    }

    async fn server(&self, key: Option<&str>) -> Binary {
        let mut command = self.command("server", USERS.0, USERS.1);
        command.env("OUTLAST__SERVER__ROLES", "api,brain,hand");
        Binary::start_as(&mut command, &self.path("server"), key).await
    }
}

/// Returns the processes of a user; whose their folders are says nothing, where they are closed.
fn processes(user: u32) -> Vec<u32> {
    let is_own = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let first = line.and_then(|line| line.split_whitespace().next());
        first == Some(user.to_string().as_str())
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(is_own).collect()
}

/// Looks for texts in all memory of a process, in plain; returns those that are there.
fn found_in(pid: u32, texts: &[&str]) -> Vec<String> {
    let (Ok(maps), Ok(mut memory)) = (
        fs::read_to_string(format!("/proc/{pid}/maps")),
        fs::File::open(format!("/proc/{pid}/mem")),
    ) else {
        // It is gone by now.
        return Vec::new();
    };
    let mut found = Vec::new();
    for line in maps.lines() {
        let mut words = line.split(' ');
        let range = words.next().unwrap().split_once('-').unwrap();
        let range = [range.0, range.1].map(|end| u64::from_str_radix(end, 16).unwrap());
        if !words.next().unwrap().starts_with('r') || line.ends_with("[vvar]") {
            continue;
        }
        let mut bytes = vec![0; usize::try_from(range[1] - range[0]).unwrap()];
        if memory.seek(SeekFrom::Start(range[0])).is_err() {
            continue;
        }
        let mut length = 0;
        while let Ok(more) = memory.read(&mut bytes[length..]) {
            length += more;
            if more == 0 {
                break;
            }
        }
        let bytes = &bytes[..length];
        for text in texts {
            if memchr::memmem::find(bytes, text.as_bytes()).is_some() {
                found.push(format!("{text} in {line} of {pid}"));
            }
        }
    }
    found
}

async fn made(client: &Client, path: &str, body: Value) -> String {
    let made = client.post(path, &body).await.unwrap();
    made["id"].as_str().unwrap().to_owned()
}

/// Plays one turn of one command; returns what came of it.
async fn ran(client: &Client, session: &str, command: &str, turn: usize) -> String {
    said(&client.ran(session, command, turn).await)
        .trim()
        .to_owned()
}

/// Skips where no other users can be taken on.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Asserts that the server's user cannot look into a process.
fn closed(pid: u32) {
    for path in ["mem", "environ", "maps", "fd"] {
        let program = if path == "fd" { "ls" } else { "cat" };
        let mut look = std::process::Command::new(program);
        look.arg(format!("/proc/{pid}/{path}"));
        std::os::unix::process::CommandExt::uid(&mut look, USERS.0);
        std::os::unix::process::CommandExt::gid(&mut look, USERS.0);
        let looked = look.output().unwrap();
        assert!(!looked.status.success(), "{path}: {looked:?}");
    }
}

/// What both users have: a host behind a credential, a repository behind a token, a model behind a key.
struct Outside {
    at: std::net::SocketAddr,
    upstream: String,
    authorities: PathBuf,
    _model: tokio::task::JoinHandle<()>,
}

impl Outside {
    async fn new(machine: &Machine, token: &str, key: &str) -> Self {
        let echo = |headers: HeaderMap| async move {
            let key = headers.get("x-key").map(|key| key.as_bytes().to_vec());
            let sum: u64 = key.iter().flatten().map(|byte| u64::from(*byte)).sum();
            format!(
                "{} {sum}",
                String::from_utf8(key.unwrap_or_default()).unwrap()
            )
        };
        let repositories = Repositories::new(machine.folder.path());
        repositories.make("one", token);
        let authorities = machine.path("ca.pem");
        let router = repositories.router().route("/", get(echo));
        let at = secure::serve(router, &authorities).await;
        let (upstream, model) = model(key, Default::default()).await;
        Self {
            at,
            upstream,
            authorities,
            _model: model,
        }
    }
}

/// Brings a value for that host and a token for a repository there; returns a session that has both.
async fn brought(client: &Client, at: std::net::SocketAddr, value: &str, token: &str) -> Value {
    let vault = made(client, "/v1/vaults", json!({"display_name": "mine"})).await;
    let auth = json!({"type": "environment_variable", "secret_name": "API_KEY", "secret_value": value,
        "networking": {"type": "limited", "allowed_hosts": [at.ip().to_string()]}});
    let path = format!("/v1/vaults/{vault}/credentials");
    made(client, &path, json!({ "auth": auth })).await;
    let resources = json!([{"type": "github_repository", "url": format!("https://{at}/o/one"),
        "authorization_token": token}]);
    let more = json!({"vault_ids": [vault], "resources": resources});
    client.session_of(more).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_the_servers_user_has_a_secret_or_reads_the_one_that_has() {
    if !is_root() {
        return;
    }
    let machine = Machine::new();
    let (value, token, key) = (canary("value"), canary("token"), canary("model"));
    let master = canary("m")
        .bytes()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    let master = &master[..64];
    let outside = Outside::new(&machine, &token, &key).await;
    let at = outside.at;
    let open = at.to_string();
    let guard = Guard::over(&machine.path("server"));
    for (name, secret) in [("value", &value), ("token", &token), ("model", &key)] {
        guard.hide(name, secret);
    }
    let keys = [
        ("OUTLAST_MASTER_KEY", master),
        ("OUTLAST_UPSTREAM_API_KEY", key.as_str()),
        ("OUTLAST_UPSTREAM_BASE_URL", outside.upstream.as_str()),
        ("OUTLAST__EGRESS__OPEN", open.as_str()),
        (
            "OUTLAST__EGRESS__AUTHORITIES",
            outside.authorities.to_str().unwrap(),
        ),
    ];
    let egress = machine.egress(&keys).await;
    let server = machine.server(None).await;
    let session = brought(&server.client, at, &value, &token).await;
    let session = session["id"].as_str().unwrap();

    // A client brings a secret once, through the process that is then replaced.
    let mut said = server.banner.split("key        ");
    let api_key = said.nth(1).unwrap().lines().next().unwrap().to_owned();
    server.leave().await;
    let server = machine.server(Some(&api_key)).await;
    let client = &server.client;

    let ask = format!("curl -sS -H \"x-key: $API_KEY\" https://{at}/; echo; cat one/word");
    let told = ran(client, session, &ask, 1).await;
    let sum: u64 = value.bytes().map(u64::from).sum();
    let placeholder = told.split(' ').next().unwrap();
    assert!(placeholder.starts_with("outlast_placeholder_"), "{told}");
    assert_eq!(told, format!("{placeholder} {sum}\nmain"));
    let behind = client.session("behind-the-key").await;
    client.send(&behind, &[message("hello")]).await;
    let events = client.idle(&behind, 1).await;
    assert!(!of(&events, "agent.message").is_empty(), "{events:?}");

    let secrets = [value.as_str(), &token, &key, master];
    let own = processes(USERS.0);
    assert!(
        own.len() >= 3,
        "the server, its hand host and a sandbox: {own:?}"
    );
    let found: Vec<_> = own
        .iter()
        .flat_map(|pid| found_in(*pid, &secrets))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
    // The search finds what is there.
    let there = found_in(egress.id().unwrap(), &secrets);
    for secret in [&key, &token] {
        assert!(
            there.iter().any(|line| line.starts_with(secret)),
            "{secret}: {there:?}"
        );
    }
    assert!(!found_in(server.pid(), &[placeholder]).is_empty());

    closed(egress.id().unwrap());
    assert!(server.stop().await.success());
    drop(egress);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_egress_process_dies_alone_and_is_found_again() {
    if !is_root() {
        return;
    }
    let machine = Machine::new();
    let key = canary("model");
    let (upstream, _model) = model(&key, Default::default()).await;
    let keys = [
        ("OUTLAST_UPSTREAM_API_KEY", key.as_str()),
        ("OUTLAST_UPSTREAM_BASE_URL", upstream.as_str()),
    ];
    let mut egress = machine.egress(&keys).await;
    let server = machine.server(None).await;
    let client = &server.client;
    let vault = made(client, "/v1/vaults", json!({"display_name": "mine"})).await;
    let path = format!("/v1/vaults/{vault}/credentials");
    let secret = canary("echoed");
    let auth = json!({"type": "environment_variable", "secret_name": "KEY", "secret_value": secret,
        "networking": {"type": "unrestricted"}});
    made(client, &path, json!({ "auth": auth })).await;
    let session = client.session_of(json!({"vault_ids": [vault]})).await;
    let session = session["id"].as_str().unwrap();
    // What an agent shows of a secret is marked, though this process does not know it.
    let told = ran(client, session, &format!("echo {secret} > f; cat f"), 1).await;
    assert_eq!(told, "[secret KEY removed]");

    let plain = client.session_of(json!({"vault_ids": []})).await;
    let plain = plain["id"].as_str().unwrap();
    assert_eq!(ran(client, plain, "echo here", 1).await, "here");

    egress.kill().await.unwrap();
    let ready = || async {
        reqwest::get(format!("{}/readyz", server.url))
            .await
            .unwrap()
            .status()
    };
    until("a server that is not ready", async || {
        (ready().await == 503).then_some(())
    })
    .await;
    let doctor = || {
        let mut doctor = machine.command("server", USERS.0, USERS.1);
        doctor.env("OUTLAST__SERVER__ROLES", "api,brain,hand");
        doctor.arg("doctor");
        async move { Output::of(&mut doctor).await }
    };
    let seen = doctor().await;
    assert_eq!(seen.code, Some(1), "{seen:?}");
    assert!(
        seen.out.contains("start `outlast serve --roles egress`"),
        "{seen:?}"
    );
    let auth = json!({"type": "static_bearer", "mcp_server_url": "https://a.example/", "token": "t-123456789"});
    let impatient = client.clone().patient(Duration::ZERO);
    let refused = impatient.post(&path, &json!({ "auth": auth })).await;
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("--roles egress"), "{refused}");
    // What needs no secret goes on, hands too.
    assert_eq!(ran(client, plain, "echo goes on", 2).await, "goes on");
    let behind = client.session("behind-the-key").await;
    client.send(&behind, &[message("hello")]).await;
    until("a retry", async || {
        let events = client.events(&behind).await;
        (!of(&events, "session.error").is_empty()).then_some(())
    })
    .await;

    let egress = machine.egress(&keys).await;
    until("a server that is ready", async || {
        (ready().await == 200).then_some(())
    })
    .await;
    let events = client.idle(&behind, 1).await;
    assert!(!of(&events, "agent.message").is_empty(), "{events:?}");
    made(client, &path, json!({ "auth": auth })).await;
    let told = ran(client, session, "cat f", 2).await;
    assert_eq!(told, "[secret KEY removed]");
    assert!(server.stop().await.success());
    signal(egress.id().unwrap(), "TERM").await;
    let ended = timeout(DEADLINE, async {
        let mut egress = egress;
        egress.wait().await
    })
    .await;
    assert!(ended.unwrap().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_changed_counts_from_the_answer_on() {
    if !is_root() {
        return;
    }
    let machine = Machine::new();
    let (value, next, token) = (canary("value"), canary("next"), canary("token"));
    let outside = Outside::new(&machine, &token, "unused").await;
    let (at, open) = (outside.at, outside.at.to_string());
    let authorities = outside.authorities.to_str().unwrap();
    let keys = [
        ("OUTLAST__EGRESS__OPEN", open.as_str()),
        ("OUTLAST__EGRESS__AUTHORITIES", authorities),
    ];
    let egress = machine.egress(&keys).await;
    let server = machine.server(None).await;
    let client = &server.client;
    let session = brought(client, at, &value, &token).await;
    let vault = session["vault_ids"][0].as_str().unwrap();
    let path = format!("/v1/vaults/{vault}/credentials");
    let all = client.list(&path, &[], usize::MAX).await.unwrap();
    let credential = format!("{path}/{}", all[0]["id"].as_str().unwrap());
    let session = session["id"].as_str().unwrap();
    let ask = format!("curl -sSk -H \"x-key: $API_KEY\" https://{at}/");
    let told = async |turn| {
        let told = ran(client, session, &ask, turn).await;
        let (shown, sum) = told.split_once(' ').unwrap();
        (shown.to_owned(), sum.parse::<u64>().unwrap())
    };
    let sum = |text: &str| text.bytes().map(u64::from).sum::<u64>();
    assert_eq!(told(1).await.1, sum(&value));
    let update = json!({"auth": {"type": "environment_variable", "secret_value": next}});
    client.post(&credential, &update).await.unwrap();
    assert_eq!(told(2).await.1, sum(&next));
    let archive = format!("{credential}/archive");
    client.post(&archive, &json!({})).await.unwrap();
    let (placeholder, left) = told(3).await;
    assert_eq!(left, sum(&placeholder), "the placeholder itself goes out");
    assert!(server.stop().await.success());
    drop(egress);
}

/// Serves as a provider that says what it was sent, key and all, and how long that is.
async fn talkative() -> (String, tokio::task::JoinHandle<()>) {
    let quote = |headers: HeaderMap| async move {
        let key = headers["x-api-key"].to_str().unwrap();
        axum::Json(json!({"type": "message", "content": [{"type": "text", "text": key}]}))
    };
    let router = axum::Router::new().route("/v1/messages", axum::routing::post(quote));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    #[expect(clippy::disallowed_methods, reason = "ended with the test")]
    let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_quotes_the_key_is_passed_on_without_it() {
    if !is_root() {
        return;
    }
    let machine = Machine::new();
    let key = canary("model");
    let (upstream, _provider) = talkative().await;
    let keys = [
        ("OUTLAST_UPSTREAM_API_KEY", key.as_str()),
        ("OUTLAST_UPSTREAM_BASE_URL", upstream.as_str()),
    ];
    let egress = machine.egress(&keys).await;
    let server = machine.server(None).await;
    let asked =
        json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
    let told = server.client.post("/v1/messages", &asked).await.unwrap();
    assert_eq!(told["content"][0]["text"], "[key]", "{told}");
    assert!(server.stop().await.success());
    drop(egress);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_built_or_would_protect_nothing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let own = rustix::process::geteuid().as_raw().to_string();
    for (roles, peer, words) in [
        ("api", "47021", "what is built is all in one process"),
        (
            "egress",
            own.as_str(),
            "processes of one user can read each other's memory",
        ),
        (
            "api,brain,hand",
            own.as_str(),
            "processes of one user can read each other's memory",
        ),
        (
            "egress",
            "nobody-by-that-name",
            "there is no user `nobody-by-that-name`",
        ),
    ] {
        let mut command = outlast(dir.path());
        command
            .env("OUTLAST__EGRESS__SOCKET", dir.path().join("e.sock"))
            .env("OUTLAST__EGRESS__PEER", peer)
            .args(["serve", "--roles", roles]);
        let refused = Output::of(&mut command).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(words), "{refused:?}");
    }
}
