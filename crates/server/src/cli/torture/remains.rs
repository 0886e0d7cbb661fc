//! What a storm must not leave behind: processes, mounts, loop devices, control groups.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use outlast_protocol::id::IncarnationId;
use tokio::time::{Instant, sleep};

use super::processes;

/// How long what ends by itself may take to do so.
const PATIENCE: Duration = Duration::from_secs(15);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);

/// How deep control groups are looked through.
const DEPTH: usize = 8;

/// Returns what is left after a while, in words.
pub(super) async fn remains(dir: &Path, hands: &[IncarnationId]) -> Vec<String> {
    let names: Vec<String> = hands.iter().map(ToString::to_string).collect();
    let until = Instant::now() + PATIENCE;
    loop {
        let found = look(dir, &names);
        if found.is_empty() || Instant::now() > until {
            return found;
        }
        sleep(LOOK).await;
    }
}

fn look(dir: &Path, hands: &[String]) -> Vec<String> {
    let below = format!("{}/", dir.display());
    let mut found = Vec::new();
    for pid in processes::all() {
        if is_ours(pid, &below, hands) {
            found.push(format!("process {pid} is left"));
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for line in mounts.lines().filter(|line| line.contains(&below)) {
        found.push(format!("a mount is left: {line}"));
    }
    for file in loop_files().filter(|file| file.contains(&below)) {
        found.push(format!("a loop device is left on {}", file.trim()));
    }
    for group in groups(hands) {
        found.push(format!("a control group is left: {}", group.display()));
    }
    found
}

/// Tells whether a process works on the folder, or is one of a sandbox.
fn is_ours(pid: u32, below: &str, hands: &[String]) -> bool {
    if pid == std::process::id() {
        return false;
    }
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let line = String::from_utf8_lossy(&read("cmdline")).into_owned();
    let groups = String::from_utf8_lossy(&read("cgroup")).into_owned();
    line.contains(below) || hands.iter().any(|hand| groups.contains(hand.as_str()))
}

/// Returns the files behind all loop devices.
fn loop_files() -> impl Iterator<Item = String> {
    let blocks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    blocks.filter_map(|block| fs::read_to_string(block.path().join("loop/backing_file")).ok())
}

/// Returns the control groups of hands.
fn groups(hands: &[String]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((path, depth)) = open.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if hands.iter().any(|hand| name.contains(hand.as_str())) {
            found.push(path);
        } else if depth < DEPTH {
            let below = fs::read_dir(&path).into_iter().flatten().flatten();
            let dirs = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            open.extend(dirs.map(|entry| (entry.path(), depth + 1)));
        }
    }
    found
}
