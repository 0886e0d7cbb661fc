//! What a server must not leave behind, and what must stand nowhere.

use std::{
    fs,
    path::{Path, PathBuf},
    slice,
};

use outlast_testkit::canary::Canary;
pub(crate) use outlast_testkit::canary::below as files;

/// Returns every place below `dir` that holds one of the needles, but for the file that may.
pub(crate) fn holding(dir: &Path, needles: &[&str], but: &str) -> Vec<PathBuf> {
    let mut canary = Canary::default();
    for needle in needles {
        canary.hide("it", needle);
    }
    let search = canary.search().unwrap();
    let mut found = files(dir);
    found.retain(|path| !path.ends_with(but) && !search.files(slice::from_ref(path)).is_empty());
    found
}

/// Returns processes in the control groups of a data directory's hands.
pub(crate) fn processes(dir: &Path) -> Vec<String> {
    let hands = hands(dir);
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().into_string().ok());
    let pids = pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let lives = |pid: &String| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        hands.iter().any(|hand| groups.contains(hand.as_str()))
    };
    pids.filter(lives).collect()
}

/// Returns mounts of this namespace that lie in a data directory.
pub(crate) fn mounts(dir: &Path) -> Vec<String> {
    let below = format!("{}/", dir.display());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts
        .lines()
        .filter(|line| line.contains(&below))
        .map(str::to_owned)
        .collect()
}

/// Returns the names of the hands that a data directory ever had and still knows.
pub(crate) fn hands(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("hands"))
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("hand_")).collect()
}

/// Returns control groups of the hands of a data directory.
pub(crate) fn groups(dir: &Path) -> Vec<PathBuf> {
    let names = hands(dir);
    let of_ours = |group: &PathBuf| {
        let group = group.to_string_lossy();
        names.iter().any(|hand| group.contains(hand.as_str()))
    };
    let mut found = all_groups();
    found.retain(of_ours);
    found
}

/// Returns control groups of the hands of any data directory.
pub(crate) fn all_groups() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((path, depth)) = open.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.contains("hand_") {
            found.push(path);
        } else if depth < 8 {
            let below = fs::read_dir(&path).into_iter().flatten().flatten();
            let dirs = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            open.extend(dirs.map(|entry| (entry.path(), depth + 1)));
        }
    }
    found
}

/// Returns the pids of PID 1 of every sandbox of a data directory that lives.
pub(crate) fn inits(dir: &Path) -> Vec<u32> {
    let first = |pid: &String| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mut lines = status.lines();
        lines.any(|line| line.starts_with("NSpid:") && line.ends_with("\t1"))
    };
    let found = processes(dir).into_iter().filter(first);
    found.filter_map(|pid| pid.parse().ok()).collect()
}

/// Reads a file of the workspace of a sandbox that lives, as it is seen inside: its disk may be seen
/// nowhere else.
pub(crate) fn inside(dir: &Path, name: &str) -> Option<String> {
    let mut paths = inits(dir)
        .into_iter()
        .map(|pid| format!("/proc/{pid}/root/workspace/{name}"));
    paths.find_map(|path| fs::read_to_string(path).ok())
}
