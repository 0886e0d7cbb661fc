//! git's own server for repositories, behind a small host for programs of its kind (RFC 3875), with a
//! token for each repository.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::{Command as Blocking, Stdio},
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use tokio::{io::AsyncWriteExt as _, process::Command};

/// Repositories below a folder.
#[derive(Debug)]
pub(crate) struct Repositories {
    root: PathBuf,
    tokens: Mutex<HashMap<String, String>>,
    asked: Mutex<Vec<(String, Option<String>)>>,
}

/// Makes one with a word in it, and a branch with another.
const MAKE: &str = r#"
git init -q -b main work && cd work && git config user.email a@example.com && git config user.name a
echo main > word && git add word && git commit -qm main
git checkout -qb other && echo other > word && git commit -qam other && git checkout -q main && cd ..
git clone -q --bare work "$0" && rm -rf work && git -C "$0" config http.receivepack true
"#;

impl Repositories {
    pub(crate) fn new(root: &Path) -> Arc<Self> {
        Arc::new(Self {
            root: root.to_owned(),
            tokens: Mutex::default(),
            asked: Mutex::default(),
        })
    }

    /// Makes a repository that a token opens; returns the id of its newest commit.
    pub(crate) fn make(&self, name: &str, token: &str) -> String {
        let bare = self.root.join(format!("o/{name}.git"));
        std::fs::create_dir_all(bare.parent().unwrap()).unwrap();
        let made = Blocking::new("bash")
            .args(["-ec", MAKE])
            .arg(&bare)
            .current_dir(&self.root)
            .status();
        assert!(made.unwrap().success());
        self.open(name, token);
        self.tip(name, "main")
    }

    /// Gives a repository another token.
    pub(crate) fn open(&self, name: &str, token: &str) {
        let mut tokens = self.tokens.lock().unwrap();
        tokens.insert(format!("/o/{name}"), token.to_owned());
    }

    /// Returns the newest commit of a branch.
    pub(crate) fn tip(&self, name: &str, branch: &str) -> String {
        let bare = self.root.join(format!("o/{name}.git"));
        let said = Blocking::new("git")
            .arg("-C")
            .arg(bare)
            .args(["rev-parse", branch])
            .output()
            .unwrap();
        String::from_utf8(said.stdout).unwrap().trim().to_owned()
    }

    /// Returns what was asked for, and what came along to prove that it may be.
    pub(crate) fn asked(&self) -> Vec<(String, Option<String>)> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn router(self: &Arc<Self>) -> Router {
        Router::new().fallback(answer).with_state(self.clone())
    }

    fn refusal(&self, path: &str, given: Option<&str>) -> Option<StatusCode> {
        let mut parts = path.splitn(4, '/').skip(1);
        let (owner, name) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let name = format!("/{owner}/{}", name.trim_end_matches(".git"));
        let token = self.tokens.lock().unwrap().get(&name).cloned()?;
        let wanted = BASE64_STANDARD.encode(format!("x-access-token:{token}"));
        match given {
            None => Some(StatusCode::UNAUTHORIZED),
            Some(given) if given == format!("Basic {wanted}") => None,
            Some(_) => Some(StatusCode::FORBIDDEN),
        }
    }
}

async fn answer(State(all): State<Arc<Repositories>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let given = given(request.headers());
    all.asked
        .lock()
        .unwrap()
        .push((path.clone(), given.clone()));
    if let Some(status) = all.refusal(&path, given.as_deref()) {
        let mut response = Response::builder().status(status);
        if status == StatusCode::UNAUTHORIZED {
            response = response.header(header::WWW_AUTHENTICATE, "Basic realm=\"git\"");
        }
        return response.body(Body::empty()).unwrap();
    }
    run(&all.root, request).await
}

fn given(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?;
    Some(value.to_str().ok()?.to_owned())
}

/// Has `git http-backend` answer.
async fn run(root: &Path, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let text = |name: &str| {
        let value = parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let mut command = Command::new("git");
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("CONTENT_TYPE", text("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", text("content-encoding"))
        .env("GIT_PROTOCOL", text("git-protocol"))
        .env("REMOTE_USER", "tester")
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let write = async move {
        // It may have heard enough.
        drop(stdin.write_all(&body).await);
    };
    let ((), output) = tokio::join!(write, child.wait_with_output());
    spoken(&output.unwrap().stdout)
}

/// Reads what a program said: headers, an empty line, a body.
fn spoken(output: &[u8]) -> Response {
    let end = output.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.expect("a head");
    let head = std::str::from_utf8(&output[..end]).unwrap();
    let mut response = Response::builder();
    for line in head.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = match name {
            "Status" => response.status(value[..3].parse::<u16>().unwrap()),
            name => response.header(name, value),
        };
    }
    let body = Bytes::copy_from_slice(&output[end + 4..]);
    response.body(Body::from(body)).unwrap()
}
