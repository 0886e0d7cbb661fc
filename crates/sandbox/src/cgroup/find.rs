//! Where the control groups of this process are.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// What the kernel says about this process's groups and their mounts.
#[derive(Debug)]
pub(super) struct Host {
    /// (controllers, path) of each line of `cgroup`; version 2 has no controllers there.
    groups: Vec<(Vec<String>, PathBuf)>,
    /// (type, options, root, mount point) of each control group mount.
    mounts: Vec<(String, Vec<String>, PathBuf, PathBuf)>,
}

impl Host {
    /// Reads `cgroup` and `mountinfo` of the process folder `proc`.
    pub(super) fn read(proc: &Path) -> io::Result<Self> {
        let groups = fs::read_to_string(proc.join("cgroup"))?;
        let mounts = fs::read_to_string(proc.join("mountinfo"))?;
        Ok(Self {
            groups: groups.lines().filter_map(group).collect(),
            mounts: mounts.lines().filter_map(mount).collect(),
        })
    }

    /// Returns the folder of this process's group for a version 1 controller.
    pub(super) fn v1(&self, controller: &str) -> Option<PathBuf> {
        let has = |names: &[String]| names.iter().any(|name| name == controller);
        let (_, group) = self.groups.iter().find(|(names, _)| has(names))?;
        let (.., root, at) = self
            .mounts
            .iter()
            .find(|(kind, options, ..)| kind == "cgroup" && has(options))?;
        Some(below(root, at, group))
    }

    /// Returns the mount point and the folder of this process's group in version 2.
    pub(super) fn v2(&self) -> Option<(PathBuf, PathBuf)> {
        let (_, group) = self.groups.iter().find(|(names, _)| names.is_empty())?;
        let (.., root, at) = self.mounts.iter().find(|(kind, ..)| kind == "cgroup2")?;
        Some((at.clone(), below(root, at, group)))
    }
}

/// Places a group path under the mount that shows it; a mount may show only a part of the hierarchy.
fn below(root: &Path, at: &Path, group: &Path) -> PathBuf {
    let inner = group.strip_prefix(root).unwrap_or_else(|_| Path::new(""));
    at.join(inner.strip_prefix("/").unwrap_or(inner))
}

/// Reads a line `7:cpu,cpuacct:/path`.
fn group(line: &str) -> Option<(Vec<String>, PathBuf)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let names = parts.next()?.split(',').filter(|name| !name.is_empty());
    let names = names.map(str::to_owned).collect();
    Some((names, PathBuf::from(parts.next()?)))
}

/// Reads a line of `mountinfo`, if it mounts control groups.
fn mount(line: &str) -> Option<(String, Vec<String>, PathBuf, PathBuf)> {
    let (head, tail) = line.split_once(" - ")?;
    let mut head = head.split(' ').skip(3);
    let (root, at) = (PathBuf::from(head.next()?), PathBuf::from(head.next()?));
    let mut tail = tail.split(' ');
    let kind = tail
        .next()
        .filter(|kind| kind.starts_with("cgroup"))?
        .to_owned();
    let options = tail.nth(1)?.split(',').map(str::to_owned).collect();
    Some((kind, options, root, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(cgroup: &str, mountinfo: &str) -> Host {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup"), cgroup).unwrap();
        fs::write(folder.path().join("mountinfo"), mountinfo).unwrap();
        Host::read(folder.path()).unwrap()
    }

    #[test]
    fn finds_the_hierarchies_of_version_1() {
        let host = host(
            "4:memory:/a/b\n1:cpu,cpuacct:/\n0::/\n",
            "30 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             31 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n",
        );
        assert_eq!(host.v1("memory"), Some("/sys/fs/cgroup/memory/a/b".into()));
        assert_eq!(host.v1("cpu"), Some("/sys/fs/cgroup/cpu,cpuacct/".into()));
        assert_eq!(host.v1("pids"), None);
    }

    #[test]
    fn finds_version_2_behind_a_mount_of_a_part() {
        let host = host(
            "0::/docker/abc/inner\n",
            "30 25 0:27 /docker/abc /sys/fs/cgroup rw shared:9 - cgroup2 cgroup rw\n",
        );
        let at = PathBuf::from("/sys/fs/cgroup");
        assert_eq!(host.v2(), Some((at.clone(), at.join("inner"))));
    }
}
