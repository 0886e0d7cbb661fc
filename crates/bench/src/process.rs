//! The server under measurement: the built binary in a process of its own.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use hyper::Method;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use crate::{
    http::{Connection, KEY},
    relay::free,
};

/// How often a starting server is asked whether it serves.
const LOOK: Duration = Duration::from_micros(500);

/// The longest wait for a start or an end.
const PATIENCE: Duration = Duration::from_secs(60);

/// How to start a server.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) binary: PathBuf,
    pub(crate) dir: PathBuf,
    /// Environment beside what every server gets.
    pub(crate) environment: Vec<(&'static str, String)>,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// From the start of the process to the first good `/readyz`.
    pub(crate) boot: Duration,
    child: Child,
    pid: Pid,
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// Resident.
    pub(crate) rss: f64,
    /// Resident, shared pages in proportion.
    pub(crate) pss: f64,
}

impl Setup {
    pub(crate) fn new(binary: &Path, dir: PathBuf) -> Self {
        Self {
            binary: binary.to_owned(),
            dir,
            environment: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Starts a server and waits until it serves.
    pub(crate) async fn start(&self) -> Result<Server> {
        let address = free()?;
        let mut command = self.command(address)?;
        let begun = Instant::now();
        let child = command.spawn().context("cannot start the binary")?;
        ready(address).await?;
        let boot = begun.elapsed();
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Server {
            address,
            boot,
            child,
            pid: pid.context("the server ended")?,
        })
    }

    fn command(&self, address: SocketAddr) -> Result<Command> {
        let mut name = self.dir.clone().into_os_string();
        name.push(".log");
        let log = File::options().create(true).append(true).open(name)?;
        let mut command = Command::new(&self.binary);
        command
            .args(["serve", "--listen", &address.to_string(), "--data-dir"])
            .arg(&self.dir)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("OUTLAST_API_KEY", KEY)
            // Sandboxes outlive the server; those of a measurement not for long.
            .env("OUTLAST__HANDS__ORPHAN_SECONDS", "15")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true);
        Ok(command)
    }
}

impl Server {
    /// Ends it in good order.
    pub(crate) async fn stop(mut self) -> Result<()> {
        kill_process(self.pid, Signal::TERM)?;
        timeout(PATIENCE, self.child.wait())
            .await
            .context("the server does not end")??;
        Ok(())
    }

    /// Returns the memory it has now.
    pub(crate) fn memory(&self) -> Result<Memory> {
        memory(self.pid.as_raw_nonzero().get())
    }

    /// Returns the processor time it has used.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let text = fs::read_to_string(self.proc("stat"))?;
        // The name in parentheses may hold spaces; user and system time are fields 14 and 15.
        let (_, fields) = text.rsplit_once(')').context("no stat of a process")?;
        let ticks = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(str::parse::<u64>);
        let ticks: u64 = ticks.sum::<Result<u64, _>>()?;
        Ok(Duration::from_millis(
            ticks * 1_000 / rustix::param::clock_ticks_per_second(),
        ))
    }

    fn proc(&self, name: &str) -> PathBuf {
        Path::new("/proc")
            .join(self.pid.as_raw_nonzero().to_string())
            .join(name)
    }
}

/// Returns the memory that a process has now.
pub(crate) fn memory(pid: i32) -> Result<Memory> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path)?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let line = line.trim_start_matches(':').trim();
        let kib: f64 = line.strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024.0)
    };
    let missing = || format!("{path} has no figures");
    Ok(Memory {
        rss: bytes("Rss").with_context(missing)?,
        pss: bytes("Pss").with_context(missing)?,
    })
}

/// Waits until `/readyz` is good.
async fn ready(address: SocketAddr) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Ok(mut connection) = Connection::open(address).await
            && connection
                .call(Method::GET, "/readyz", Bytes::new())
                .await
                .is_ok()
        {
            return Ok(());
        }
        sleep(LOOK).await;
    }
    bail!("the server does not become ready; see its log")
}
