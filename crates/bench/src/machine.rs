//! What the figures were taken on.

use std::{fs, path::Path};

use serde::Serialize;

/// Facts of the machine; empty where they cannot be read.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    processor: String,
    processors: usize,
    memory_gib: u64,
    kernel: String,
    /// Type of the file system of the folder that was measured.
    disk: String,
    /// Runnable tasks over the last minute, at the beginning of the run: whether others worked too.
    load_before: String,
    /// The same at its end; the run itself is in it.
    pub(crate) load_after: String,
}

impl Machine {
    pub(crate) fn look(dir: &Path) -> Self {
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        Self {
            processor: field("/proc/cpuinfo", "model name"),
            processors,
            memory_gib: memory(),
            kernel: read("/proc/sys/kernel/osrelease"),
            disk: disk(dir),
            load_before: load(),
            load_after: String::new(),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            processor,
            processors,
            memory_gib,
            kernel,
            disk,
            load_before,
            load_after,
        } = self;
        write!(
            f,
            "{processors} x {processor}, {memory_gib} GiB, Linux {kernel}, {disk}; load {load_before} \
             before, {load_after} after"
        )
    }
}

/// Returns the load of the last minute.
pub(crate) fn load() -> String {
    read("/proc/loadavg")
        .split(' ')
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn field(path: &str, name: &str) -> String {
    let text = read(path);
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_once(':'));
    value
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

fn memory() -> u64 {
    let text = field("/proc/meminfo", "MemTotal");
    let kib: u64 = text.trim_end_matches("kB").trim().parse().unwrap_or(0);
    kib.div_ceil(1024 * 1024)
}

/// Returns the type of the file system that holds `dir`: of the longest mount point that leads to it.
fn disk(dir: &Path) -> String {
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let mounts = read("/proc/mounts");
    let fields = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let leading = fields.filter(|(at, _)| dir.starts_with(at));
    leading
        .max_by_key(|(at, _)| at.len())
        .map(|(_, kind)| kind.to_owned())
        .unwrap_or_default()
}
