//! The real binary: started, talked to, killed.

use std::{
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
};

use outlast_server::client::Client;
use secrecy::SecretString;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use super::{DEADLINE, ear, guard::Guard, host};

/// Makes a command of the binary with an environment that has nothing of this process.
pub(crate) fn outlast(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir)
        .env("OUTLAST_DATA_DIR", dir)
        // A port that no test listens on by chance: the usual one may be in use on this machine.
        .env("OUTLAST__SERVER__LISTEN", "127.0.0.1:1")
        // What a test leaves by mistake ends soon by itself.
        .env("OUTLAST__HANDS__ORPHAN_SECONDS", "30")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// What a command said and returned.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Output {
    /// Runs a command to its end.
    pub(crate) async fn of(command: &mut Command) -> Self {
        Self::of_child(command.spawn().unwrap()).await
    }

    pub(crate) async fn of_child(child: Child) -> Self {
        let output = timeout(DEADLINE, child.wait_with_output()).await;
        let output = output.expect("the command ends").unwrap();
        for said in [&output.stdout, &output.stderr] {
            ear::note(said);
        }
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Writes to a command's input and runs it to its end.
    pub(crate) async fn with_input(command: &mut Command, input: &str) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        Self::of_child(child).await
    }
}

/// A server in a process of its own.
///
/// Whenever one ends the test fails if a secret of it stands where none may, as with a `TestServer`.
#[derive(Debug)]
pub(crate) struct Binary {
    child: Child,
    dir: PathBuf,
    guard: Arc<Guard>,
    /// Whether sandboxes and their host live on without it.
    is_left: bool,
    /// Whether other commands find all that it was started with.
    is_usual: bool,
    pub(crate) client: Client,
    pub(crate) url: String,
    /// What it said first.
    pub(crate) banner: String,
}

impl Binary {
    /// Starts a server on a free port and waits until it is ready.
    pub(crate) async fn start(dir: &Path, key: Option<&str>) -> Self {
        let mut started = Self::start_as(&mut Self::command(dir), dir, key).await;
        started.is_usual = true;
        started
    }

    /// Makes the command of a server on a free port.
    pub(crate) fn command(dir: &Path) -> Command {
        let mut command = outlast(dir);
        command
            .env("OUTLAST__SERVER__LISTEN", "127.0.0.1:0")
            .env("OUTLAST_UPSTREAM_API_KEY", Guard::over(dir).model_key())
            // Nobody is there: tests that ask a model say which.
            .env("OUTLAST_UPSTREAM_BASE_URL", "http://127.0.0.1:1");
        command
    }

    /// Starts a server by a command that the test has changed.
    pub(crate) async fn start_as(command: &mut Command, dir: &Path, key: Option<&str>) -> Self {
        command.arg("serve");
        // Logs fill no pipe that nobody reads, and can be searched.
        let log = File::options()
            .create(true)
            .append(true)
            .open(dir.join("server.log"))
            .unwrap();
        let mut child = command.stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut banner = String::new();
        let mut read = async || {
            while let Some(line) = lines.next_line().await.unwrap() {
                banner.push_str(&line);
                banner.push('\n');
                if line.contains("  key ") {
                    return;
                }
            }
        };
        timeout(DEADLINE, read()).await.expect("the server starts");
        let url = banner
            .split("listens on ")
            .nth(1)
            .expect("a banner")
            .lines()
            .next()
            .unwrap();
        let url = url.to_owned();
        let made = banner
            .split("key        ")
            .nth(1)
            .and_then(|rest| rest.lines().next());
        let key = SecretString::from(key.or(made).unwrap().to_owned());
        let client = Client::new(&url, Some(&key)).unwrap().patient(DEADLINE);
        let guard = Guard::over(dir);
        guard.is_at(&url);
        // Servers of one database seal under one master key, and these have one each.
        let shares = |(name, _): (&OsStr, _)| name == "OUTLAST_DATABASE_URL";
        if !command.as_std().get_envs().any(shares) {
            guard.plant(&client).await;
        }
        Self {
            child,
            dir: dir.to_owned(),
            guard,
            is_left: false,
            is_usual: false,
            client,
            url,
            banner,
        }
    }

    /// Kills it as nothing can be prepared for. Its sandboxes live on.
    pub(crate) async fn kill(mut self) {
        self.is_left = true;
        let alive = self.alive();
        self.child.kill().await.unwrap();
        self.clean(alive);
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Asks it to end, and waits for that, then has the host of its sandboxes end.
    pub(crate) async fn stop(mut self) -> ExitStatus {
        self.guard.ask(&self.client).await;
        let mut wrong = self.alive();
        if self.is_usual {
            wrong.extend(self.bundle().await);
        }
        let status = self.ended().await;
        host::end(&self.dir).await;
        self.clean(wrong);
        status
    }

    /// Asks it to end, and waits for that. Its sandboxes live on.
    pub(crate) async fn leave(mut self) -> ExitStatus {
        let alive = self.alive();
        let status = self.ended().await;
        self.clean(alive);
        status
    }

    async fn ended(&mut self) -> ExitStatus {
        self.is_left = true;
        signal(self.pid(), "TERM").await;
        timeout(DEADLINE, self.child.wait())
            .await
            .expect("the server ends")
            .unwrap()
    }

    /// Looks for secrets in what ends with it.
    fn alive(&self) -> Vec<String> {
        let own: Vec<u32> = self.child.id().into_iter().collect();
        let host: Vec<u32> = host::pid(&self.dir).into_iter().collect();
        self.guard.alive(&own, &host)
    }

    /// Looks for secrets in what a support bundle shows of it, made as its operator does.
    async fn bundle(&self) -> Vec<String> {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("support.tar.gz");
        let mut command = Self::command(&self.dir);
        command.arg("support-bundle").arg("-o").arg(&path);
        let made = Output::of(&mut command).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        self.guard.file(&path)
    }

    /// Fails if a secret was found, or is found in what is left.
    fn clean(&self, mut wrong: Vec<String>) {
        wrong.extend(self.guard.over_all());
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        if !self.is_left
            && let Some(pid) = host::pid(&self.dir)
        {
            // A test has failed: nothing it started may stay.
            drop(
                std::process::Command::new("kill")
                    .args(["-KILL", &pid.to_string()])
                    .status(),
            );
        }
    }
}

/// Sends a signal to a process that a test started.
pub(crate) async fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status()
        .await;
    assert!(sent.unwrap().success());
}
