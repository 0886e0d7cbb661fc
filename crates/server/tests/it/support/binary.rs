//! The real binary: started, talked to, killed.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use outlast_server::client::Client;
use secrecy::SecretString;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use super::{DEADLINE, host};

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
#[derive(Debug)]
pub(crate) struct Binary {
    child: Child,
    dir: PathBuf,
    /// Whether sandboxes and their host live on without it.
    is_left: bool,
    pub(crate) client: Client,
    pub(crate) url: String,
    /// What it said first.
    pub(crate) banner: String,
}

impl Binary {
    /// Starts a server on a free port and waits until it is ready.
    pub(crate) async fn start(dir: &Path, key: Option<&str>) -> Self {
        Self::start_as(&mut Self::command(dir), dir, key).await
    }

    /// Makes the command of a server on a free port.
    pub(crate) fn command(dir: &Path) -> Command {
        let mut command = outlast(dir);
        command.env("OUTLAST__SERVER__LISTEN", "127.0.0.1:0");
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
        Self {
            child,
            dir: dir.to_owned(),
            is_left: false,
            client,
            url,
            banner,
        }
    }

    /// Kills it as nothing can be prepared for. Its sandboxes live on.
    pub(crate) async fn kill(mut self) {
        self.is_left = true;
        self.child.kill().await.unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Asks it to end, and waits for that, then has the host of its sandboxes end.
    pub(crate) async fn stop(self) -> ExitStatus {
        let dir = self.dir.clone();
        let status = self.leave().await;
        host::end(&dir).await;
        status
    }

    /// Asks it to end, and waits for that. Its sandboxes live on.
    pub(crate) async fn leave(mut self) -> ExitStatus {
        self.is_left = true;
        signal(self.pid(), "TERM").await;
        timeout(DEADLINE, self.child.wait())
            .await
            .expect("the server ends")
            .unwrap()
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
