//! What others take to start a sandbox that does nothing.

use std::{fs, os::unix::fs::symlink, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Result, bail};
use serde_json::json;
use tokio::{process::Command, time::Instant};

use crate::{relay::is_there, run::Bench};

/// A sandbox of bubblewrap's: the same namespaces, the host's programs, a fresh `/tmp`.
const BUBBLEWRAP: &str = "--unshare-all --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib \
    --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp /bin/true";

/// What can be started here.
#[derive(Debug)]
pub(super) struct Peers {
    has_bubblewrap: bool,
    bundle: Option<Bundle>,
}

/// What runc runs.
#[derive(Debug)]
struct Bundle {
    folder: PathBuf,
    runs: usize,
}

impl Peers {
    /// Looks for them; says which are not there.
    pub(super) async fn find(bench: &mut Bench) -> Result<Self> {
        let has_bubblewrap = is_there("bwrap".as_ref());
        if !has_bubblewrap {
            bench.lacks("bubblewrap: `bwrap` is not installed");
        }
        let mut peers = Self {
            has_bubblewrap,
            bundle: None,
        };
        if !is_there("runc".as_ref()) {
            bench.lacks("runc: it is not installed");
            return Ok(peers);
        }
        let mut bundle = Bundle::make(bench.dir.join("runc"))?;
        match bundle.run().await {
            Ok(_) => peers.bundle = Some(bundle),
            Err(error) => bench.lacks(format!("runc: it does not run here: {error:#}")),
        }
        Ok(peers)
    }

    /// Starts bubblewrap once.
    pub(super) async fn bubblewrap(&self) -> Result<Option<Duration>> {
        if !self.has_bubblewrap {
            return Ok(None);
        }
        let mut command = Command::new("bwrap");
        command.args(BUBBLEWRAP.split_whitespace());
        timed(command).await.map(Some)
    }

    /// Starts runc once.
    pub(super) async fn runc(&mut self) -> Result<Option<Duration>> {
        match &mut self.bundle {
            Some(bundle) => bundle.run().await.map(Some),
            None => Ok(None),
        }
    }
}

impl Bundle {
    /// Writes it down: the same bounds, the host's programs, no filter of system calls.
    fn make(folder: PathBuf) -> Result<Self> {
        let root = folder.join("rootfs");
        fs::create_dir_all(&root)?;
        for name in ["bin", "lib", "lib64"] {
            symlink(format!("usr/{name}"), root.join(name))?;
        }
        let config = json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false, "user": {"uid": 0, "gid": 0}, "args": ["/bin/true"], "cwd": "/",
                "env": ["PATH=/usr/bin"], "noNewPrivileges": true, "capabilities": {},
            },
            "root": {"path": "rootfs"},
            "hostname": "sandbox",
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                    "options": ["nosuid", "mode=755"]},
                {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
                    "options": ["nosuid", "nodev"]},
                {"destination": "/usr", "type": "none", "source": "/usr", "options": ["rbind", "ro"]},
            ],
            "linux": {
                "resources": {
                    "memory": {"limit": 2_147_483_648_u64}, "pids": {"limit": 512},
                    "cpu": {"quota": 200_000, "period": 100_000},
                },
                "namespaces": [
                    {"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"},
                    {"type": "mount"}, {"type": "cgroup"},
                ],
            },
        });
        fs::write(folder.join("config.json"), config.to_string())?;
        Ok(Self { folder, runs: 0 })
    }

    async fn run(&mut self) -> Result<Duration> {
        self.runs += 1;
        let mut command = Command::new("runc");
        command
            .arg("--root")
            .arg(self.folder.join("state"))
            .args(["run", "--bundle"])
            .arg(&self.folder)
            .arg(format!(
                "outlast-bench-{}-{}",
                std::process::id(),
                self.runs
            ));
        timed(command).await
    }
}

async fn timed(mut command: Command) -> Result<Duration> {
    let begun = Instant::now();
    let output = command.stdin(Stdio::null()).output().await?;
    let took = begun.elapsed();
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(took)
}
