//! Programs as agents use them, through the proxy by their usual variables alone.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
    sync::Arc,
};

use outlast_egress::hand::{Credentials, Held, Hosts, Network as _, Way};
use tempfile::TempDir;
use tokio::process::Command;

use crate::{
    keys::{PLACEHOLDER, Public, SECRET, Set, held},
    scene::{Scene, limited},
    upstream::Host,
};

/// A hand's programs, and a host with files.
struct Bench {
    scene: Scene,
    dir: TempDir,
    host: Host,
    set: Arc<Set>,
}

const NAMES: [&str; 2] = ["opened.example", "closed.example"];

impl Bench {
    /// Starts one whose host asks for `key`, if there is one.
    async fn start(held: Vec<Held>, key: Option<String>) -> Self {
        let public = Public::new();
        let set = Set::new(held);
        let credentials: Arc<dyn Credentials> = set.clone();
        let scene = Scene::with(limited(&NAMES), public.options(), credentials).await;
        let dir = TempDir::new().unwrap();
        let root = dir.path().join("www");
        fs::create_dir(&root).unwrap();
        let host = Host::files(public.host(&NAMES), root, key).await;
        let dress = scene.forwarder.dress(&scene.bound).await.unwrap();
        let bundle = format!("{}{}", dress.authority.unwrap(), public.pem);
        fs::write(dir.path().join("bundle.pem"), bundle).unwrap();
        Self {
            scene,
            dir,
            host,
            set,
        }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("www")
    }

    fn url(&self, name: &str) -> String {
        format!("https://{name}:{}", self.host.port())
    }

    /// Prepares a program with what a hand has in its environment, and nothing else.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        let (proxy, bundle) = (
            format!("http://{}", self.scene.proxy),
            self.dir.path().join("bundle.pem"),
        );
        command
            .env_clear()
            .env("HOME", self.dir.path())
            .current_dir(self.dir.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for variable in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
            command.env(variable, &proxy);
        }
        for variable in [
            "SSL_CERT_FILE",
            "REQUESTS_CA_BUNDLE",
            "NODE_EXTRA_CA_CERTS",
            "CURL_CA_BUNDLE",
            "GIT_SSL_CAINFO",
            "PIP_CERT",
        ] {
            command.env(variable, &bundle);
        }
        // A machine may have settings of its own for everybody.
        command.env("NPM_CONFIG_GLOBALCONFIG", "/dev/null");
        command.env("API_KEY", PLACEHOLDER).kill_on_drop(true);
        command
    }

    /// Runs it; none if this machine does not have it.
    async fn run(&self, name: &str, arguments: &[&str]) -> Option<Output> {
        match self.program(name).args(arguments).output().await {
            Ok(output) => Some(output),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// Returns what a program said, which has to have done well.
fn said(output: &Output) -> String {
    let (out, error) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}{error}");
    format!("{out}{error}")
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn curl_reads_opened_and_closed_hosts_and_says_why_another_is_refused() {
    let key = Some(format!("Bearer {SECRET}"));
    let bench = Bench::start(vec![held(SECRET, &["opened.example"], true, false)], key).await;
    write(&bench.root(), "hello", "hello");
    let command = format!(
        "curl -sS -H \"Authorization: Bearer $API_KEY\" {}/hello",
        bench.url("opened.example")
    );
    let output = bench.run("sh", &["-c", &command]).await.unwrap();
    if output.status.code() == Some(127) {
        return;
    }
    assert_eq!(said(&output), "hello");
    let closed = format!("{}/hello", bench.url("closed.example"));
    let bearer = format!("Authorization: Bearer {SECRET}");
    let output = bench
        .run("curl", &["-sS", "-H", &bearer, &closed])
        .await
        .unwrap();
    assert_eq!(said(&output), "hello");
    let output = bench
        .run("curl", &["-sSv", "https://evil.example/"])
        .await
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("403 host `evil.example` is refused: "),
        "{error}"
    );
}

#[tokio::test]
async fn python_reads_a_host_that_is_opened() {
    let key = Some(format!("Bearer {SECRET}"));
    let bench = Bench::start(vec![held(SECRET, &["opened.example"], true, false)], key).await;
    write(&bench.root(), "hello", "hello");
    let script = format!(
        "import os, urllib.request as r\n\
         q = r.Request('{}/hello', headers={{'Authorization': 'Bearer ' + os.environ['API_KEY']}})\n\
         print(r.urlopen(q, timeout=20).read().decode())",
        bench.url("opened.example")
    );
    if let Some(output) = bench.run("python3", &["-c", &script]).await {
        assert_eq!(said(&output), "hello\n");
    }
}

#[tokio::test]
async fn git_clones_with_a_token_that_is_not_there() {
    let token = "ghs_token_of_a_repository";
    use base64::Engine as _;
    let pair = format!("x-access-token:{token}");
    let basic = base64::engine::general_purpose::STANDARD.encode(pair);
    let bench = Bench::start(Vec::new(), Some(format!("Basic {basic}"))).await;
    let repository = Held {
        credential: "sesrsc_1".to_owned(),
        vault: None,
        hosts: Hosts::These(vec!["opened.example".parse().unwrap()]),
        way: Way::Basic {
            port: bench.host.port(),
            path: "/o/r.git".to_owned(),
            user: "x-access-token".to_owned(),
            secret: token.into(),
        },
    };
    bench.set.set(vec![repository]);
    let bare = bench.root().join("o/r.git");
    fs::create_dir_all(&bare).unwrap();
    let script = format!(
        "git init -q w && cd w && git -c user.name=a -c user.email=a@a.example commit -q --allow-empty -m one && \
         git clone -q --bare . {0} && git -C {0} update-server-info",
        bare.display()
    );
    let output = bench.run("sh", &["-c", &script]).await.unwrap();
    if output.status.code() == Some(127) {
        return;
    }
    said(&output);
    let url = format!("{}/o/r.git", bench.url("opened.example"));
    said(
        &bench
            .run("git", &["clone", "-q", &url, "clone"])
            .await
            .unwrap(),
    );
    let log = said(
        &bench
            .run("git", &["-C", "clone", "log", "--format=%s"])
            .await
            .unwrap(),
    );
    assert_eq!(log, "one\n");
    let config = fs::read_to_string(bench.dir.path().join("clone/.git/config")).unwrap();
    assert!(config.contains(&format!("url = {url}\n")), "{config}");
    let other = format!("{}/o/other.git", bench.url("opened.example"));
    let refused = bench
        .run("git", &["clone", "-q", &other, "other"])
        .await
        .unwrap();
    assert!(!refused.status.success());
}

#[tokio::test]
async fn pip_installs_from_an_index() {
    let bench = Bench::start(Vec::new(), None).await;
    let wheel = "import zipfile, sys\n\
        w = zipfile.ZipFile(sys.argv[1], 'w')\n\
        w.writestr('hello_egress.py', 'WORD = 7\\n')\n\
        i = 'hello_egress-1.0.dist-info/'\n\
        w.writestr(i + 'METADATA', 'Metadata-Version: 2.1\\nName: hello-egress\\nVersion: 1.0\\n')\n\
        w.writestr(i + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        w.writestr(i + 'RECORD', '')\n\
        w.close()";
    let file = bench.root().join("hello_egress-1.0-py3-none-any.whl");
    let made = bench
        .run("python3", &["-c", wheel, file.to_str().unwrap()])
        .await;
    let Some(made) = made else { return };
    said(&made);
    write(
        &bench.root(),
        "simple/hello-egress/index.html",
        "<a href=\"../../hello_egress-1.0-py3-none-any.whl\">hello_egress-1.0-py3-none-any.whl</a>",
    );
    let index = format!("{}/simple", bench.url("closed.example"));
    let arguments = [
        "-m",
        "pip",
        "install",
        "-q",
        "--no-input",
        "--disable-pip-version-check",
        "--target",
        "t",
        "--index-url",
        &index,
        "hello-egress",
    ];
    let output = bench.run("python3", &arguments).await.unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("No module named pip") {
        return;
    }
    said(&output);
    assert!(bench.dir.path().join("t/hello_egress.py").exists());
}

#[tokio::test]
async fn npm_installs_from_a_registry() {
    let bench = Bench::start(Vec::new(), None).await;
    let url = bench.url("closed.example");
    write(
        &bench.dir.path().join("p"),
        "package/package.json",
        r#"{"name":"hello-egress","version":"1.0.0"}"#,
    );
    let tar = bench.root().join("hello-egress.tgz");
    let arguments = ["-czf", tar.to_str().unwrap(), "-C", "p", "package"];
    said(&bench.run("tar", &arguments).await.unwrap());
    let about = format!(
        r#"{{"name":"hello-egress","dist-tags":{{"latest":"1.0.0"}},"versions":{{"1.0.0":{{"name":"hello-egress",
        "version":"1.0.0","dist":{{"tarball":"{url}/hello-egress.tgz"}}}}}}}}"#
    );
    write(&bench.root(), "hello-egress/index.html", &about);
    let registry = format!("--registry={url}/");
    let arguments = [
        "install",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        "--fetch-retries=0",
        &registry,
        "hello-egress",
    ];
    let Some(output) = bench.run("npm", &arguments).await else {
        return;
    };
    said(&output);
    assert!(
        bench
            .dir
            .path()
            .join("node_modules/hello-egress/package.json")
            .exists()
    );
}
