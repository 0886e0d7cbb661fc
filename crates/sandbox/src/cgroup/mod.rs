//! Control groups: memory, processes and processor time of a whole sandbox.
//!
//! Version 1, version 2 and none are all served. Groups are made below the server's own, so a
//! service manager's bounds on the server bound its sandboxes too.

mod apart;
mod find;
mod freeze;
mod v1;
mod v2;

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use rustix::{
    process::Pid,
    thread::{Timespec, nanosleep},
    time::{ClockId, clock_gettime},
};

use apart::Apart;
pub(crate) use freeze::Freezer;
pub(crate) use v2::LEAF;

use crate::{Cgroups, Limits, Purpose};

/// Begins the name of every group of a sandbox.
const PREFIX: &str = "outlast-box-";

/// How often limits struck since a sandbox was started.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pressure {
    /// Processes killed because memory ran out.
    pub oom_kills: u64,
    /// New processes and threads refused because commands had as many as they may.
    pub pids_refused: u64,
    /// How long processes waited for the processor because they had used up their share.
    pub held_back: Duration,
}

/// How groups are made on this host.
#[derive(Clone, Debug)]
pub(crate) enum Controllers {
    /// One hierarchy per controller.
    V1(v1::Hierarchies),
    /// One hierarchy.
    V2(v2::Parent),
    /// Not at all, and why.
    None(String),
}

impl Controllers {
    /// Finds out by making a group and removing it.
    pub(crate) fn detect() -> Self {
        let found = match find::Host::read(Path::new("/proc/self")) {
            Ok(host) => Self::choose(&host),
            Err(error) => Self::None(format!("/proc/self/cgroup cannot be read: {error}")),
        };
        found.parents().iter().for_each(|parent| sweep(parent));
        found
    }

    /// Prefers what can bound memory and processes.
    fn choose(host: &find::Host) -> Self {
        let first = match v1::Hierarchies::usable(host) {
            Ok(found) => return Self::V1(found),
            Err(reason) => reason,
        };
        match v2::Parent::usable(host) {
            Ok(found) => Self::V2(found),
            Err(reason) => Self::None(format!("version 1: {first}; version 2: {reason}")),
        }
    }

    /// Describes them for a person.
    pub(crate) fn describe(&self) -> Cgroups {
        match self {
            Self::V1(found) => Cgroups::V1 {
                controllers: found.names(),
            },
            Self::V2(found) => Cgroups::V2 {
                controllers: found.controllers.clone(),
            },
            Self::None(reason) => Cgroups::None {
                reason: reason.clone(),
            },
        }
    }

    /// Makes the group `name` with its bounds, and for commands one of their own within it.
    pub(crate) fn create(
        &self,
        name: &str,
        limits: &Limits,
        purpose: Purpose,
    ) -> io::Result<Group> {
        let name = format!("{PREFIX}{name}");
        let (mut group, part): (_, Part) = match self {
            Self::V1(found) => (found.create(&name, limits)?, Apart::v1),
            Self::V2(found) => (found.create(&name, limits)?, Apart::v2),
            Self::None(_) => return Ok(Group::default()),
        };
        if purpose == Purpose::Commands {
            group.part(part, limits).inspect_err(|_| group.remove())?;
        }
        Ok(group)
    }

    /// Removes what a dead server left of the group `name`.
    pub(crate) fn remove_leftover(&self, name: &str) {
        let name = format!("{PREFIX}{name}");
        for parent in self.parents() {
            let folder = parent.join(&name);
            release(&folder);
            remove(&folder);
        }
    }

    /// Returns the folders that groups are made in.
    fn parents(&self) -> Vec<PathBuf> {
        match self {
            Self::V1(found) => found.folders(),
            Self::V2(found) => vec![found.folder.clone()],
            Self::None(_) => Vec::new(),
        }
    }
}

/// Removes groups whose server died without removing them: empty, and not of this minute, since
/// another server may just have made one for a process that is not in it yet.
///
/// A server that died while a sandbox stood still left one that cannot die: it is let go first.
fn sweep(parent: &Path) {
    let now = clock_gettime(ClockId::Realtime).tv_sec;
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Some(name) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let old = entry
            .metadata()
            .is_ok_and(|metadata| metadata.ctime() + 60 < now);
        if is_doomed(&entry.path()) {
            release(&entry.path());
            remove(&entry.path());
        } else if (old || is_dead_trial(name)) && members(&entry.path()).is_empty() {
            // Fails for a group in use by now.
            for group in apart::whole(&entry.path()) {
                drop(fs::remove_dir(group));
            }
        }
    }
}

/// Tells whether a process of a group was killed and cannot die, because the group stands still.
///
/// One whose server lives is not taken for such: nobody has killed it.
fn is_doomed(folder: &Path) -> bool {
    members(folder).lines().any(|pid| {
        let status = fs::read_to_string(Path::new("/proc").join(pid).join("status"));
        status.is_ok_and(|status| is_killed(&status))
    })
}

/// Lists the processes of a group and of those below it.
fn members(folder: &Path) -> String {
    let groups = apart::whole(folder).into_iter();
    let lists = groups.map(|group| fs::read_to_string(group.join("cgroup.procs")));
    lists.filter_map(Result::ok).collect()
}

/// Tells whether SIGKILL waits for a process, by its `status` file.
fn is_killed(status: &str) -> bool {
    let waits = |line: &str| {
        let set = ["SigPnd:", "ShdPnd:"]
            .iter()
            .find_map(|name| line.strip_prefix(name))?;
        let set = u64::from_str_radix(set.trim(), 16).ok()?;
        Some(set & (1 << (libc::SIGKILL - 1)) != 0)
    };
    status.lines().filter_map(waits).any(|killed| killed)
}

/// Lets what stands still in a group go on, if anything can stand still there.
fn release(folder: &Path) {
    for freezer in [
        Freezer::V1(folder.to_owned()),
        Freezer::V2(folder.to_owned()),
    ] {
        // Only one of the two files is there, if any.
        drop(freezer.thaw());
    }
}

/// Tells whether a group was made for the trial of a process that is gone.
fn is_dead_trial(name: &str) -> bool {
    let pid = name
        .strip_prefix("trial-")
        .and_then(|rest| rest.split('-').next());
    pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
}

/// How the commands' own group is made within one.
type Part = fn(&Path, &Limits) -> io::Result<Apart>;

/// The groups of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Group {
    folders: Vec<PathBuf>,
    /// The commands' own group.
    apart: Option<Apart>,
    /// What stops everything in it.
    freezer: Option<Freezer>,
    /// The file with a line `oom_kill N`.
    oom: Option<PathBuf>,
    /// The file with a line `max N`.
    pids: Option<PathBuf>,
    /// The file that tells how long processes were held back.
    cpu: Option<PathBuf>,
}

impl Group {
    /// Puts a process in, before it makes others.
    pub(crate) fn add(&self, pid: Pid) -> io::Result<()> {
        let pid = pid.as_raw_nonzero().to_string();
        let beside = self.apart.as_ref().and_then(Apart::beside);
        beside
            .map_or(&*self.folders, std::slice::from_ref)
            .iter()
            .try_for_each(|folder| fs::write(folder.join("cgroup.procs"), &pid))
    }

    /// Makes the commands' own group, in which their processes are counted from then on.
    fn part(&mut self, part: Part, limits: &Limits) -> io::Result<()> {
        let group = self.pids.as_deref().and_then(Path::parent);
        let apart = part(group.ok_or(io::ErrorKind::Unsupported)?, limits)?;
        self.pids = Some(apart.refusals());
        self.apart = Some(apart);
        Ok(())
    }

    /// Opens the door of the commands' own group, if they have one.
    pub(crate) fn door(&self) -> io::Result<Option<OwnedFd>> {
        self.apart.as_ref().map(Apart::open).transpose()
    }

    /// Returns how often its bounds struck.
    pub(crate) fn pressure(&self) -> Pressure {
        let count = |file: &Option<PathBuf>, key| {
            file.as_ref()
                .and_then(|file| counter(file, key))
                .unwrap_or(0)
        };
        Pressure {
            oom_kills: count(&self.oom, "oom_kill"),
            pids_refused: count(&self.pids, "max"),
            held_back: Duration::from_micros(count(&self.cpu, "throttled_usec"))
                + Duration::from_nanos(count(&self.cpu, "throttled_time")),
        }
    }

    /// Returns what stops everything in it, if something can.
    pub(crate) const fn freezer(&self) -> Option<&Freezer> {
        self.freezer.as_ref()
    }

    /// Tells whether there are none.
    pub(crate) const fn is_none(&self) -> bool {
        self.folders.is_empty()
    }

    /// Removes the groups; their processes must be dead or dying.
    pub(crate) fn remove(&self) {
        for folder in &self.folders {
            remove(folder);
        }
    }
}

/// Returns the bound on everything in the group: the commands', and room for PID 1 to act.
fn most_pids(limits: &Limits) -> u64 {
    u64::from(limits.pids) + crate::plan::SPARE_PIDS
}

/// Returns a name for a trial that no other trial of any process has.
pub(crate) fn trial() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("trial-{}-{number}", std::process::id())
}

/// Removes one group and those below it.
fn remove(folder: &Path) {
    for group in apart::whole(folder) {
        remove_one(&group);
    }
}

/// Removes one group, waiting a little for the kernel to let go of the last process.
fn remove_one(folder: &Path) {
    for _ in 0..500 {
        match fs::remove_dir(folder) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => pause(),
            Ok(()) | Err(_) => return,
        }
    }
}

/// Waits two milliseconds.
pub(crate) fn pause() {
    let pause = Timespec {
        tv_sec: 0,
        tv_nsec: 2_000_000,
    };
    // Woken early it looks early.
    let _ = nanosleep(&pause);
}

/// Reads the number behind `key` in a file of keys and numbers.
fn counter(file: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

/// Makes the group folder anew if an old one of that name is in the way.
fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            remove(folder);
            fs::create_dir(folder)
        }
        other => other,
    }
}
