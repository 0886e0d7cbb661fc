//! The commands' own group within a sandbox's.
//!
//! Its bound leaves out PID 1 and file tools, which can act when commands have used theirs up, and
//! its count of refusals is the commands' alone.

use std::{
    fs::{self, OpenOptions},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use super::make;
use crate::Limits;

/// Its name below the sandbox's.
const NAME: &str = "commands";

/// Where PID 1 is in version 2, in which an inner group holds no processes.
const BESIDE: &str = "init";

/// The group of the commands.
#[derive(Debug)]
pub(super) struct Apart {
    folder: PathBuf,
    /// The file by which a process brings itself in.
    door: &'static str,
    /// Where PID 1 goes, if not to the sandbox's group itself.
    beside: Option<PathBuf>,
}

impl Apart {
    /// Makes it below a group of version 1.
    pub(super) fn v1(group: &Path, limits: &Limits) -> io::Result<Self> {
        // A thread that moves itself makes the kernel stop nobody, unlike a whole process.
        let (folder, door, beside) = (group.join(NAME), "tasks", None);
        Self {
            folder,
            door,
            beside,
        }
        .make(limits)
    }

    /// Makes it below a group of version 2.
    pub(super) fn v2(group: &Path, limits: &Limits) -> io::Result<Self> {
        fs::write(group.join("cgroup.subtree_control"), "+pids")?;
        let beside = group.join(BESIDE);
        make(&beside)?;
        let (folder, door, beside) = (group.join(NAME), "cgroup.procs", Some(beside));
        Self {
            folder,
            door,
            beside,
        }
        .make(limits)
    }

    fn make(self, limits: &Limits) -> io::Result<Self> {
        make(&self.folder)?;
        fs::write(self.folder.join("pids.max"), limits.pids.to_string())?;
        Ok(self)
    }

    /// Returns where PID 1 goes, if not to the sandbox's group itself.
    pub(super) const fn beside(&self) -> Option<&PathBuf> {
        self.beside.as_ref()
    }

    /// Returns the file that counts refusals.
    pub(super) fn refusals(&self) -> PathBuf {
        self.folder.join("pids.events")
    }

    /// Opens its door: whoever writes `0` to it is in.
    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        let door = self.folder.join(self.door);
        Ok(OpenOptions::new().write(true).open(door)?.into())
    }
}

/// Returns the groups of a sandbox, the outer one last.
pub(super) fn whole(group: &Path) -> Vec<PathBuf> {
    let below = [NAME, BESIDE].map(|name| group.join(name)).into_iter();
    let below = below.filter(|folder| folder.is_dir());
    below.chain([group.to_owned()]).collect()
}
