//! The process that sandboxes live in: how a server starts it, and what it does.

mod detach;
mod log;

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
};

use async_trait::async_trait;
use outlast_hands::host::{Ended, Host, Options, Place, Starter};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::{
    process::Command,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

pub(crate) use detach::{detach, quiet};
pub(crate) use log::Rotating;

use crate::{
    config::{Config, Hands, Log},
    server::driver,
    telemetry,
};

/// What the host may know of the configuration.
const SETTINGS: &str = "hand-host.toml";

/// How long a host may take to start: a machine under load, not a normal one.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// How often to look whether one has ended.
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);

/// The part of the configuration that a host is given: nothing of it is a secret.
#[derive(Debug, Serialize)]
struct Settings<'a> {
    hands: &'a Hands,
    log: &'a Log,
}

/// Starts hosts as processes of their own.
#[derive(Debug)]
pub struct Spawn {
    program: PathBuf,
    settings: String,
}

impl Spawn {
    /// Starts hosts by this binary of ours, with what they may know of the configuration.
    ///
    /// # Errors
    ///
    /// If the settings cannot be written down.
    pub fn new(program: PathBuf, config: &Config) -> io::Result<Self> {
        let settings = Settings {
            hands: &config.hands,
            log: &config.log,
        };
        let settings = toml::to_string(&settings).map_err(io::Error::other)?;
        Ok(Self { program, settings })
    }

    /// Writes the settings where the host reads them.
    fn write(&self, dir: &Path) -> io::Result<PathBuf> {
        let path = dir.join(SETTINGS);
        let draft = dir.join(format!("{SETTINGS}.new"));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?;
        file.write_all(b"# Written by `outlast serve` for the host that it starts.\n")?;
        file.write_all(self.settings.as_bytes())?;
        fs::rename(&draft, &path)?;
        Ok(path)
    }
}

#[async_trait]
impl Starter for Spawn {
    async fn start(&self, place: &Place) -> io::Result<()> {
        // The host works from the root folder.
        let dir = place.dir().canonicalize()?;
        let settings = self.write(&dir)?;
        let mut command = Command::new(&self.program);
        command
            .arg("--config")
            .arg(settings)
            .arg("--data-dir")
            .arg(&dir)
            .args(["hand-host", "--detach", "--name", place.stem()])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let ended = timeout(PATIENCE, command.output()).await;
        let output = ended.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(unready(&words, output.status))
    }
}

/// Says why a host did not start: in its own words, or how it ended if it said nothing any more.
fn unready(words: &str, status: ExitStatus) -> io::Error {
    let words = words.trim().trim_start_matches("error: ");
    io::Error::other(match words {
        "" => format!("the hand host ended while it started, without a word ({status})"),
        words => words.to_owned(),
    })
}

/// Asks the hosts of a data directory to end, and waits until they have; tells how many there were.
///
/// # Errors
///
/// If one does not end, or is not ours to end.
pub(crate) async fn stop(dir: &Path) -> io::Result<usize> {
    let mut ended = 0;
    for place in [Place::usual(dir), Place::beside(dir)] {
        if !place.is_held()? {
            continue;
        }
        let holder = place.holder().and_then(|holder| holder.parse().ok());
        let pid = holder.and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the lock does not say who has it"))?;
        kill_process(pid, Signal::TERM)?;
        let gone = async {
            while place.is_held()? {
                sleep(LOOK).await;
            }
            Ok::<_, io::Error>(())
        };
        timeout(PATIENCE, gone)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        ended += 1;
    }
    Ok(ended)
}

/// Why there is no host at work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    /// Its place has no such name.
    #[error("there is no place `{0}` for a hand host")]
    Name(String),
    /// Another process has the place.
    #[error(transparent)]
    Taken(#[from] outlast_hands::host::TakeError),
    /// A file, a socket or the sandboxes.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A host that listens.
#[derive(Debug)]
pub(crate) struct HandHost {
    host: Host,
    driver: Arc<outlast_hands::namespace::Namespaces>,
}

impl HandHost {
    /// Takes the place and begins to listen.
    pub(crate) async fn open(config: &Config, dir: &Path, name: &str) -> Result<Self, HostError> {
        let place = Place::named(dir, name).ok_or_else(|| HostError::Name(name.to_owned()))?;
        let lock = place.take().await?;
        let driver = Arc::new(driver(config, dir).await?);
        let verdict = driver.verdict();
        let options = Options {
            isolation: verdict.to_string(),
            refusal: verdict.refusal.clone(),
            orphan: config.hands.orphan(),
            figures: telemetry::render,
            ..Options::default()
        };
        let host = Host::open(lock, driver.clone(), options)?;
        Ok(Self { host, driver })
    }

    /// Tells what isolation its hands have.
    pub(crate) fn isolation(&self) -> String {
        self.driver.verdict().to_string()
    }

    /// Serves to its end.
    pub(crate) async fn serve(self, stop: CancellationToken) -> Ended {
        let (ended, lock) = self.host.serve(stop).await;
        self.driver.shutdown().await;
        drop(lock);
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_killed_while_it_starts_has_a_reason() {
        let status = |script| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", script]).status().unwrap()
        };
        let killed = unready("", status("kill -9 $$")).to_string();
        assert!(
            killed.contains("while it started") && killed.contains("SIGKILL"),
            "{killed}"
        );
        let said = unready("error: no room\n", status("exit 1")).to_string();
        assert_eq!(said, "no room");
    }
}
