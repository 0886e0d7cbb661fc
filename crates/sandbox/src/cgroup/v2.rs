//! Version 2: one hierarchy, whose inner groups hold no processes.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{Freezer, Group, find::Host, make};
use crate::Limits;

/// The controllers that bound a sandbox.
const WANTED: [&str; 3] = ["memory", "pids", "cpu"];

/// Where the server itself goes, because an inner group holds no processes.
pub(crate) const LEAF: &str = "outlast-server";

/// The period of the processor quota, in microseconds.
const PERIOD: u64 = 100_000;

/// A group that hands its controllers to the groups made in it.
#[derive(Clone, Debug)]
pub(crate) struct Parent {
    pub(super) folder: PathBuf,
    pub(super) controllers: Vec<String>,
}

impl Parent {
    /// Returns a group to make groups in: the server's own if nothing else is there, as in a service;
    /// else, as root, one at the top.
    pub(super) fn usable(host: &Host) -> Result<Self, String> {
        let (top, mut own) = host.v2().ok_or("not mounted")?;
        if own.ends_with(LEAF) {
            own.pop();
        }
        Self::at(&own, &own).or_else(|first| {
            let apart = top.join("outlast");
            Self::at(&top, &apart).map_err(|second| {
                format!("{}: {first}; {}: {second}", own.display(), apart.display())
            })
        })
    }

    /// Hands controllers from `above` down and makes a trial group in `folder`.
    fn at(above: &Path, folder: &Path) -> Result<Self, String> {
        let controllers = offered(above)?;
        let attempt = || -> io::Result<()> {
            if folder == above {
                leave_alone(above)?;
            }
            hand_down(above, &controllers)?;
            if folder != above {
                fs::create_dir_all(folder)?;
                hand_down(folder, &controllers)?;
            }
            let trial = folder.join(format!("{}{}", super::PREFIX, super::trial()));
            make(&trial)?;
            fs::remove_dir(trial)
        };
        attempt().map_err(|error| error.to_string())?;
        Ok(Self {
            folder: folder.to_owned(),
            controllers,
        })
    }

    /// Makes the group `name`.
    pub(super) fn create(&self, name: &str, limits: &Limits) -> io::Result<Group> {
        let folder = self.folder.join(name);
        let group = Group {
            oom: Some(folder.join("memory.events")),
            pids: Some(folder.join("pids.events")),
            freezer: Some(Freezer::V2(folder.clone())),
            cpu: Some(folder.join("cpu.stat")),
            folders: vec![folder.clone()],
            apart: None,
        };
        make(&folder)?;
        self.bound(&folder, limits)
            .inspect_err(|_| group.remove())?;
        Ok(group)
    }

    /// Writes the bounds.
    fn bound(&self, folder: &Path, limits: &Limits) -> io::Result<()> {
        let has = |name: &str| self.controllers.iter().any(|found| found == name);
        fs::write(folder.join("memory.max"), limits.memory_bytes.to_string())?;
        // Without swap there is no such file.
        drop(fs::write(folder.join("memory.swap.max"), "0"));
        fs::write(
            folder.join("pids.max"),
            super::most_pids(limits).to_string(),
        )?;
        if has("cpu") {
            let quota = u64::from(limits.cpu_millis) * PERIOD / 1000;
            fs::write(
                folder.join("cpu.max"),
                format!("{} {PERIOD}", quota.max(1000)),
            )?;
        }
        Ok(())
    }
}

/// Returns the wanted controllers that a group has; memory and pids must be among them.
fn offered(group: &Path) -> Result<Vec<String>, String> {
    let text =
        fs::read_to_string(group.join("cgroup.controllers")).map_err(|error| error.to_string())?;
    let has = |name: &str| text.split_ascii_whitespace().any(|found| found == name);
    match WANTED.iter().find(|name| **name != "cpu" && !has(name)) {
        Some(missing) => Err(format!("no {missing} controller")),
        None => Ok(WANTED
            .iter()
            .filter(|name| has(name))
            .map(|name| (*name).to_owned())
            .collect()),
    }
}

/// Moves the server's processes to a leaf, if no others are in its group.
///
/// The server and the host of its sandboxes are started in one group. Processes of others are left
/// where they are: then the group cannot be used.
fn leave_alone(group: &Path) -> io::Result<()> {
    let members = fs::read_to_string(group.join("cgroup.procs"))?;
    let (ours, others): (Vec<_>, Vec<_>) = members.lines().partition(|pid| is_ours(pid));
    if others.iter().any(|pid| is_there(pid)) {
        return Err(io::Error::other("it holds other processes too"));
    }
    let leaf = group.join(LEAF);
    // It is there if this process moved before.
    fs::create_dir_all(&leaf)?;
    let file = leaf.join("cgroup.procs");
    let own = std::process::id().to_string();
    for pid in ours {
        match fs::write(&file, pid) {
            // It ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) && pid != own => {}
            moved => moved?,
        }
    }
    Ok(())
}

/// Tells whether a process runs the program that this one runs.
fn is_ours(pid: &str) -> bool {
    let program = |pid: &str| fs::metadata(format!("/proc/{pid}/exe"));
    let same =
        |one: &fs::Metadata, two: &fs::Metadata| (one.dev(), one.ino()) == (two.dev(), two.ino());
    matches!((program(pid), program("self")), (Ok(one), Ok(two)) if same(&one, &two))
}

/// Tells whether a process has not ended.
fn is_there(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

/// Enables controllers for the groups below.
fn hand_down(group: &Path, controllers: &[String]) -> io::Result<()> {
    let file = group.join("cgroup.subtree_control");
    controllers
        .iter()
        .try_for_each(|name| fs::write(&file, format!("+{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a group; what is written to it can be read back.
    fn group(controllers: &str, members: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.controllers"), controllers).unwrap();
        fs::write(folder.path().join("cgroup.procs"), members).unwrap();
        folder
    }

    const LIMITS: Limits = Limits {
        memory_bytes: 1 << 20,
        pids: 10,
        cpu_millis: 1500,
        disk_bytes: 1 << 20,
        inodes: 100,
    };

    #[test]
    fn a_service_alone_in_its_group_uses_it() {
        let own = group("cpuset cpu io memory pids", &std::process::id().to_string());
        let parent = Parent::at(own.path(), own.path()).unwrap();
        assert_eq!(parent.controllers, ["memory", "pids", "cpu"]);
        let made = parent.create("x", &LIMITS).unwrap();
        let read = |name: &str| fs::read_to_string(own.path().join("x").join(name)).unwrap();
        assert_eq!(
            (read("memory.max"), read("pids.max")),
            ("1048576".into(), "26".into())
        );
        assert_eq!(read("cpu.max"), "150000 100000");
        fs::write(own.path().join("x/memory.events"), "oom 3\noom_kill 2\n").unwrap();
        assert_eq!(made.pressure().oom_kills, 2);
    }

    #[test]
    fn what_runs_the_same_program_goes_along() {
        let own = std::process::id().to_string();
        let mut other = std::process::Command::new("/proc/self/exe")
            .args([
                "--exact",
                "cgroup::v2::tests::waits_until_nobody_writes",
                "--ignored",
            ])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // One that has ended is nobody's.
        let members = format!("{own}\n{}\n4194305\n", other.id());
        let group = group("memory pids", &members);
        leave_alone(group.path()).unwrap();
        let moved = fs::read_to_string(group.path().join(LEAF).join("cgroup.procs")).unwrap();
        assert_eq!(moved, other.id().to_string(), "the last that was written");
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success());
    }

    #[test]
    #[ignore = "the process that another test starts"]
    fn waits_until_nobody_writes() {
        io::copy(&mut io::stdin(), &mut io::sink()).unwrap();
    }

    #[test]
    fn a_group_with_others_in_it_is_left_alone() {
        let own = group("memory pids", "1\n");
        let reason = Parent::at(own.path(), own.path()).unwrap_err();
        assert_eq!(reason, "it holds other processes too");
        assert!(!own.path().join(LEAF).exists());
    }

    #[test]
    fn only_old_empty_groups_of_ours_are_swept() {
        let own = group("memory pids", "");
        for name in ["outlast-box-new", "other"] {
            fs::create_dir(own.path().join(name)).unwrap();
        }
        super::super::sweep(own.path());
        assert!(own.path().join("outlast-box-new").exists() && own.path().join("other").exists());
    }

    #[test]
    fn a_missing_controller_is_named() {
        let own = group("cpu pids", "");
        assert_eq!(
            Parent::at(own.path(), own.path()).unwrap_err(),
            "no memory controller"
        );
    }
}
