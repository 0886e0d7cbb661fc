//! Memory of sandboxes that do nothing: each with its init and the shell of its first call.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::time::sleep;

use crate::{
    api::Client,
    model::{Ask, Endpoint},
    process::memory,
    report::Row,
    run::Bench,
    stats::Samples,
};

const GROUP: &str = "Memory of idle sandboxes";

const KIB: f64 = 1024.0;

/// Sandboxes.
const COUNT: usize = 200;

/// The fewest that say something of the host.
const LEAST: usize = 50;

/// Time for the last one to come to rest.
const SETTLE: Duration = Duration::from_secs(2);

/// Makes sandboxes, lets them rest, and looks at every process of them.
pub(crate) async fn measure(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut endpoint = Endpoint::start().await?;
    let setup = bench.setup("sandboxes");
    let at = setup.dir.clone();
    let server = setup.with("OUTLAST_UPSTREAM_BASE_URL", endpoint.url());
    let server = server.start().await?;
    let mut client = Client::open(server.address).await?;
    let count = bench.options.rounds(COUNT).max(LEAST);
    // What the first one brings with it is the host's own.
    let first = sandbox(&mut client, &mut endpoint).await?;
    sleep(SETTLE).await;
    let host = host(&at)?;
    let (host_before, ours_before) = (memory(host)?.pss, server.memory()?.pss);
    let mut sessions = vec![first];
    for _ in 0..count {
        sessions.push(sandbox(&mut client, &mut endpoint).await?);
    }
    sleep(SETTLE).await;
    let mut found = Found::default();
    let all = Processes::read();
    for init in all.children(host) {
        found.sandbox(&all, init)?;
    }
    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    let each = |before: f64, after: f64| {
        [(after - before) / KIB / count as f64]
            .into_iter()
            .collect()
    };
    let of_host: Samples = each(host_before, memory(host)?.pss);
    let of_server: Samples = each(ours_before, server.memory()?.pss);
    if found.charge.len() == 0 {
        bench.lacks("what control groups charge for a sandbox: no memory controller is in use");
    }
    for session in sessions {
        client.delete(&session).await?;
    }
    server.stop().await?;
    Ok(found.rows(count, &of_host, &of_server))
}

/// Makes a session that has had one call.
async fn sandbox(client: &mut Client, endpoint: &mut Endpoint) -> Result<String> {
    endpoint.clear();
    let session = client.session().await?;
    client.turn(&session, Ask::Call { left: 1 }).await?;
    Ok(session)
}

#[derive(Debug, Default)]
struct Found {
    init: Samples,
    all: Samples,
    charge: Samples,
}

impl Found {
    /// Looks at one sandbox.
    fn sandbox(&mut self, all: &Processes, init: i32) -> Result<()> {
        let own = memory(init)?.pss / KIB;
        let mut whole = own;
        for pid in all.below(init) {
            whole += memory(pid)?.pss / KIB;
        }
        self.init.push(own);
        self.all.push(whole);
        if let Some(bytes) = charge(init) {
            self.charge.push(bytes / KIB);
        }
        Ok(())
    }

    fn rows(&self, count: usize, of_host: &Samples, of_server: &Samples) -> Vec<Row> {
        let row = |name, samples| Row::new(GROUP, name, "KiB", samples);
        let mut rows = vec![
            row("init and shell, shared pages in proportion", &self.all)
                .note(format!("{count} sandboxes and one before them")),
            row("of that init", &self.init),
            row("the hand host, for each", of_host),
            row("the server, for each session", of_server),
        ];
        if self.charge.len() > 0 {
            rows.push(
                row("charged to its control group", &self.charge)
                    .note("with its part of the page cache and of the kernel's own memory"),
            );
        }
        rows
    }
}

/// Finds the host of a data directory.
fn host(dir: &Path) -> Result<i32> {
    let dir = dir.to_string_lossy().into_owned();
    let is_host = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.contains("hand-host") && line.contains(&dir)
    };
    let mut pids = Processes::read().0.into_keys();
    pids.find(is_host).context("no hand host runs")
}

/// Parents by process.
#[derive(Debug)]
struct Processes(BTreeMap<i32, i32>);

impl Processes {
    fn read() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(pids.filter_map(|pid| Some((pid, parent(pid)?))).collect())
    }

    fn children(&self, of: i32) -> Vec<i32> {
        let found = self.0.iter().filter(|(_, parent)| **parent == of);
        found.map(|(pid, _)| *pid).collect()
    }

    /// Returns all descendants.
    fn below(&self, of: i32) -> Vec<i32> {
        let mut found = self.children(of);
        let mut at = 0;
        while let Some(pid) = found.get(at).copied() {
            found.extend(self.children(pid));
            at += 1;
        }
        found
    }
}

fn parent(pid: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

/// Returns what the memory controller charges to the group of a process.
fn charge(pid: i32) -> Option<f64> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let (folder, file) = group(&groups, &mounts)?;
    fs::read_to_string(folder.join(file))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Finds the folder of a process's memory group, and the file with the figure.
fn group(groups: &str, mounts: &str) -> Option<(PathBuf, &'static str)> {
    let path = |wanted: &dyn Fn(&str, &str) -> bool| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, names, path) = (fields.next()?, fields.next()?, fields.next()?);
            wanted(number, names).then_some(path)
        })
    };
    let mount = |wanted: &dyn Fn(&str, &str) -> bool| {
        mounts.lines().find_map(|line| {
            let fields: Vec<_> = line.split(' ').collect();
            let (at, kind, options) = (fields.get(1)?, fields.get(2)?, fields.get(3)?);
            wanted(kind, options).then_some(*at)
        })
    };
    let has = |list: &str| list.split(',').any(|name| name == "memory");
    let first =
        path(&|_, names| has(names)).zip(mount(&|kind, options| kind == "cgroup" && has(options)));
    let second = || path(&|number, _| number == "0").zip(mount(&|kind, _| kind == "cgroup2"));
    let (below, at, file) = match first {
        Some((below, at)) => (below, at, "memory.usage_in_bytes"),
        None => {
            let (below, at) = second()?;
            (below, at, "memory.current")
        }
    };
    Some((Path::new(at).join(below.trim_start_matches('/')), file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_are_read() {
        let first = group(
            "8:pids:/x\n4:memory:/a/b\n0::/\n",
            "c /m cgroup rw,memory 0 0\nc /u cgroup2 rw 0 0\n",
        );
        assert_eq!(first, Some(("/m/a/b".into(), "memory.usage_in_bytes")));
        let second = group("0::/a\n", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n");
        assert_eq!(second, Some(("/sys/fs/cgroup/a".into(), "memory.current")));
        assert_eq!(group("0::/a\n", ""), None);
    }

    #[test]
    fn descendants_are_found_at_any_depth() {
        let all = Processes([(2, 1), (3, 2), (4, 3), (5, 1)].into_iter().collect());
        assert_eq!(all.below(2), [3, 4]);
        assert!(all.below(5).is_empty());
    }
}
