//! The server that is tortured: the real binary, in a process of its own.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    net::{SocketAddr, TcpListener},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use outlast_protocol::seam::Entropy as _;
use rustix::process::{Pid, Signal, kill_process};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use super::place::Place;
use crate::{
    OsEntropy,
    config::{Config, Format, Hands, Kernel, Log, Retries},
};

/// How long a server may take to end when it is asked to.
const ENDING: Duration = Duration::from_secs(60);

/// What the server is told: a file, because others can read the command line.
#[derive(Serialize)]
struct Settings<'a> {
    server: Listen<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    database: Option<Url<'a>>,
    kernel: Kernel,
    hands: Hands,
    retries: Retries,
    log: Log,
}

#[derive(Serialize)]
struct Listen<'a> {
    listen: SocketAddr,
    api_key: &'a str,
    shutdown_seconds: u64,
}

#[derive(Serialize)]
struct Url<'a> {
    url: &'a str,
}

/// A server on a port that stays the same, however often it is killed.
#[derive(Debug)]
pub(super) struct Server {
    settings: PathBuf,
    data: PathBuf,
    log: PathBuf,
    child: Child,
    pub(super) url: String,
    pub(super) key: SecretString,
}

impl Server {
    /// Writes down what the server is told, and starts it; it may not be ready yet.
    pub(super) fn start(
        place: &Place,
        config: &Config,
        database: Option<&str>,
        sessions: usize,
    ) -> io::Result<Self> {
        let listen = free_port()?;
        let key = key();
        let data = place.data();
        fs::DirBuilder::new().mode(0o700).create(&data)?;
        let settings = Settings {
            server: Listen {
                listen,
                api_key: key.expose_secret(),
                shutdown_seconds: 20,
            },
            database: database.map(|url| Url { url }),
            kernel: Kernel {
                brains: config.kernel.brains.max(sessions),
                ..config.kernel.clone()
            },
            hands: hands(config),
            retries: config.retries.clone(),
            log: Log {
                format: Format::Json,
                level: "info".to_owned(),
            },
        };
        let text = toml::to_string(&settings).map_err(io::Error::other)?;
        let path = place.dir.join("outlast.toml");
        let mut options = File::options();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        file?.write_all(text.as_bytes())?;
        let log = place.dir.join("server.log");
        let child = spawn(&path, &data, &log)?;
        Ok(Self {
            settings: path,
            data,
            log,
            child,
            url: format!("http://{listen}"),
            key,
        })
    }

    /// Kills it, as nothing can be prepared for, and starts it again as a supervisor would.
    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await?;
        self.child = spawn(&self.settings, &self.data, &self.log)?;
        Ok(())
    }

    /// Tells how it ended, if it did so by itself; another one is started then.
    pub(super) fn revive(&mut self) -> io::Result<Option<ExitStatus>> {
        let ended = self.child.try_wait()?;
        if ended.is_some() {
            self.child = spawn(&self.settings, &self.data, &self.log)?;
        }
        Ok(ended)
    }

    /// Asks it to end, and waits for that.
    pub(super) async fn stop(&mut self) -> io::Result<ExitStatus> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM)?;
        }
        let ended = timeout(ENDING, self.child.wait()).await;
        ended.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// Returns the end of its log.
    pub(super) fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

/// Returns sandboxes as the operator bounds them, but let go, saved and reaped within a storm.
fn hands(config: &Config) -> Hands {
    Hands {
        idle_seconds: 20,
        checkpoint_idle_seconds: 2,
        checkpoint_seconds: 10,
        orphan_seconds: 60,
        ..config.hands.clone()
    }
}

fn spawn(settings: &PathBuf, data: &PathBuf, log: &PathBuf) -> io::Result<Child> {
    let log = File::options().create(true).append(true).open(log)?;
    Command::new("/proc/self/exe")
        .arg("--config")
        .arg(settings)
        .arg("--data-dir")
        .arg(data)
        .arg("serve")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir("/")
        // A key that interrupts the storm is none for the server.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
}

/// Finds a port that nobody has now.
fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

fn key() -> SecretString {
    let mut bytes = [0; 16];
    OsEntropy.fill(&mut bytes);
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.into()
}
