//! The peer of durable appends: a private Postgres on the same disk, driven by `pgbench`.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use crate::{relay::free, stats::Samples};

/// The user that owns the cluster where we are root: Postgres refuses to run as root.
const USER: &str = "postgres";

/// One plain row of one kilobyte, committed; nothing else.
const INSERT: &str = "INSERT INTO records (session, body) VALUES (:client_id, :body);\n";

/// Bytes of a body.
const BODY: usize = 1_024;

/// A running cluster.
#[derive(Debug)]
pub(crate) struct Postgres {
    programs: PathBuf,
    dir: PathBuf,
    address: SocketAddr,
    owner: Option<(u32, u32)>,
    /// What it calls itself.
    pub(crate) version: String,
}

/// What one run of `pgbench` measured.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Commits a second.
    pub(crate) rate: f64,
    /// Time of each commit, in milliseconds.
    pub(crate) waits: Samples,
}

impl Postgres {
    /// Makes a cluster with the durability it has by default, and starts it.
    pub(crate) async fn start(programs: &Path, dir: PathBuf) -> Result<Self> {
        fs::create_dir_all(&dir)?;
        let owner = owner()?;
        if let Some((user, group)) = owner {
            chown(&dir, Some(user), Some(group))?;
        }
        let (programs, address) = (programs.to_owned(), free()?);
        let mut own = Self {
            programs,
            dir,
            address,
            owner,
            version: String::new(),
        };
        own.version = own.tell("postgres", &["--version"]).await?;
        let data = own.data();
        own.tell("initdb", &["-D", &data, "-A", "trust", "-U", USER, "-N"])
            .await?;
        let options = format!(
            "-h {} -p {} -k '' -c shared_buffers=256MB -c max_wal_size=8GB -c max_connections=300",
            address.ip(),
            address.port()
        );
        let log = own.dir.join("log").to_string_lossy().into_owned();
        own.tell(
            "pg_ctl",
            &["-D", &data, "-l", &log, "-o", &options, "-w", "start"],
        )
        .await?;
        own.prepare().await?;
        Ok(own)
    }

    async fn prepare(&self) -> Result<()> {
        let table = "CREATE TABLE records (id bigserial PRIMARY KEY, session bigint, body text)";
        let mut psql = self.command("psql");
        psql.args(self.there())
            .args(["-q", "-c", table, "postgres"]);
        said(psql.output().await?, "psql")?;
        fs::write(self.script(), INSERT)?;
        Ok(())
    }

    /// Has so many clients commit that many single rows each.
    pub(crate) async fn insert(&self, clients: usize, rows: usize) -> Result<Measured> {
        let prefix = self.dir.join("waits");
        let body = format!("body='{}'", "x".repeat(BODY));
        let (clients, rows) = (clients.to_string(), rows.to_string());
        let jobs = if clients == "1" { "1" } else { "2" };
        let mut pgbench = self.command("pgbench");
        pgbench
            .args(self.there())
            .args([
                "-n", "-M", "prepared", "-c", &clients, "-j", jobs, "-t", &rows, "-D", &body,
            ])
            .args(["-l", "--log-prefix"])
            .arg(&prefix)
            .arg("-f")
            .arg(self.script())
            .arg("postgres");
        let text = said(pgbench.output().await?, "pgbench")?;
        let rate = rate(&text).with_context(|| format!("pgbench says no rate: {text}"))?;
        Ok(Measured {
            rate,
            waits: self.waits()?,
        })
    }

    /// Reads and removes what `pgbench` wrote of each transaction.
    fn waits(&self) -> Result<Samples> {
        let mut waits = Samples::default();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with("waits") {
                let text = fs::read_to_string(&path)?;
                for micros in text.lines().filter_map(wait) {
                    waits.push(micros / 1e3);
                }
                fs::remove_file(&path)?;
            }
        }
        Ok(waits)
    }

    /// Makes a database of its own for our store; returns its URL.
    pub(crate) async fn database(&self) -> Result<String> {
        let mut psql = self.command("psql");
        psql.args(self.there())
            .args(["-q", "-c", "CREATE DATABASE outlast", "postgres"]);
        said(psql.output().await?, "psql")?;
        Ok(format!("postgres://{USER}@{}/outlast", self.address))
    }

    /// Ends it.
    pub(crate) async fn stop(self) -> Result<()> {
        self.tell("pg_ctl", &["-D", &self.data(), "-m", "fast", "-w", "stop"])
            .await
            .map(drop)
    }

    fn data(&self) -> String {
        self.dir.join("data").to_string_lossy().into_owned()
    }

    fn script(&self) -> PathBuf {
        self.dir.join("insert.sql")
    }

    fn there(&self) -> [String; 6] {
        let (ip, port) = (
            self.address.ip().to_string(),
            self.address.port().to_string(),
        );
        ["-h".into(), ip, "-p".into(), port, "-U".into(), USER.into()]
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.dir).stdin(Stdio::null());
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    async fn tell(&self, program: &str, words: &[&str]) -> Result<String> {
        let mut command = self.command(program);
        // The server that `pg_ctl` leaves behind must not hold a pipe that we wait for.
        if program == "pg_ctl" {
            let status = command
                .args(words)
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let status = status.status().await?;
            return if status.success() {
                Ok(String::new())
            } else {
                bail!("{program}: {status}")
            };
        }
        said(command.args(words).output().await?, program)
    }
}

/// Returns who is to own the cluster, if not we.
fn owner() -> Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let fields = users
        .lines()
        .find_map(|line| line.strip_prefix(USER)?.strip_prefix(':'));
    let mut fields = fields
        .context("there is no user `postgres`")?
        .split(':')
        .skip(1);
    let mut number = || fields.next().and_then(|text| text.parse().ok());
    match (number(), number()) {
        (Some(user), Some(group)) => Ok(Some((user, group))),
        (None | Some(_), None) | (None, Some(_)) => bail!("the user `postgres` has no numbers"),
    }
}

fn said(output: Output, program: &str) -> Result<String> {
    if !output.status.success() {
        bail!(
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Reads the rate out of what `pgbench` prints.
fn rate(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split(' ').next()?.parse().ok()
}

/// Reads the microseconds of one transaction: the third field.
fn wait(line: &str) -> Option<f64> {
    line.split(' ').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_pgbench_are_understood() {
        let text = "latency average = 0.2 ms\ntps = 4321.5 (without initial connection time)";
        assert_eq!(rate(text), Some(4321.5));
        assert_eq!(rate("tps: none"), None);
        assert_eq!(wait("0 199 2241 0 1175850568 995598"), Some(2241.0));
        assert_eq!(wait("0 199 failed"), None);
    }
}
