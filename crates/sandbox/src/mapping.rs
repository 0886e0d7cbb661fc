//! Which host ids stand behind the ids inside.

use std::{fs, io, path::Path};

use rustix::process::{Gid, Pid, Uid};
use serde::{Deserialize, Serialize};

use crate::Purpose;

/// The uid and gid of PID 1 inside, in privileged mode.
const INIT: u32 = 0;

/// The uid and gid of commands inside.
const COMMAND: u32 = 1000;

/// Where the two host ids begin: above the ranges that distributions and systemd hand out.
const BASE: u32 = 0x7000_0000;

/// How much of the host the server may use.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// As root: PID 1 and commands have two different ids that mean nothing on the host.
    Privileged,
    /// As an ordinary user: both have that user's id, seen as 1000 inside.
    Rootless,
}

/// The host ids that a sandbox runs as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ids {
    /// How they were chosen.
    pub mode: Mode,
    /// The host uid behind PID 1.
    pub(crate) init_uid: u32,
    /// The host gid behind PID 1.
    pub(crate) init_gid: u32,
    /// The host uid behind commands.
    pub(crate) command_uid: u32,
    /// The host gid behind commands.
    pub(crate) command_gid: u32,
}

impl Ids {
    /// Chooses ids by what this process is and which ids its own user namespace has.
    pub fn detect() -> Self {
        let uid = rustix::process::geteuid();
        let gid = rustix::process::getegid();
        let base = uid
            .is_root()
            .then(|| free_pair(Path::new("/proc/self/uid_map")))
            .flatten();
        match base {
            Some(base) => Self {
                mode: Mode::Privileged,
                init_uid: base,
                init_gid: base,
                command_uid: base + 1,
                command_gid: base + 1,
            },
            None => Self {
                mode: Mode::Rootless,
                init_uid: uid.as_raw(),
                init_gid: gid.as_raw(),
                command_uid: uid.as_raw(),
                command_gid: gid.as_raw(),
            },
        }
    }

    /// Returns the host ids of a file that belongs to this uid in an image; `None` where a file keeps
    /// the ids of whoever makes it.
    ///
    /// There are two users inside: what is not the commands' is PID 1's.
    pub const fn of_image(&self, uid: u64) -> Option<(u32, u32)> {
        match self.mode {
            Mode::Rootless => None,
            Mode::Privileged if uid == COMMAND as u64 => Some((self.command_uid, self.command_gid)),
            Mode::Privileged => Some((self.init_uid, self.init_gid)),
        }
    }

    /// Names the ids: what was made for some is of no use to others.
    pub fn label(&self) -> String {
        format!("{}.{}", self.init_uid, self.command_uid)
    }

    /// Returns the uid and gid that commands have inside.
    pub const fn inside(&self) -> (u32, u32) {
        (COMMAND, COMMAND)
    }

    /// Returns the uid and gid that PID 1 has inside.
    pub const fn init_inside(&self) -> (u32, u32) {
        match self.mode {
            Mode::Privileged => (INIT, INIT),
            Mode::Rootless => (COMMAND, COMMAND),
        }
    }

    /// Returns the uid and gid that the owner of a host file has inside.
    pub const fn seen(&self, uid: u32, gid: u32) -> (u32, u32) {
        match self.mode {
            Mode::Privileged => (
                if uid == self.init_uid { INIT } else { COMMAND },
                if gid == self.init_gid { INIT } else { COMMAND },
            ),
            Mode::Rootless => (COMMAND, COMMAND),
        }
    }

    /// Returns the host's uid and gid behind these of the inside.
    pub const fn behind(&self, uid: u32, gid: u32) -> (u32, u32) {
        match self.owners(uid, gid) {
            Some(owners) => owners,
            None => (self.init_uid, self.init_gid),
        }
    }

    /// Returns the host's uid and gid for a file that has these inside; `None` where all files are
    /// this user's anyway.
    pub const fn owners(&self, uid: u32, gid: u32) -> Option<(u32, u32)> {
        match self.mode {
            Mode::Privileged => Some((
                if uid == INIT {
                    self.init_uid
                } else {
                    self.command_uid
                },
                if gid == INIT {
                    self.init_gid
                } else {
                    self.command_gid
                },
            )),
            Mode::Rootless => None,
        }
    }

    /// Gives the ids to the user namespace that `pid` has just made.
    pub(crate) fn write_maps(&self, pid: Pid, purpose: Purpose) -> io::Result<()> {
        let proc = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
        if self.mode == Mode::Rootless {
            fs::write(proc.join("setgroups"), "deny")?;
        }
        let alone = match purpose {
            Purpose::Commands => COMMAND,
            Purpose::Install => INIT,
        };
        let map = |init: u32, command: u32| match self.mode {
            Mode::Privileged => format!("{INIT} {init} 1\n{COMMAND} {command} 1\n"),
            Mode::Rootless => format!("{alone} {command} 1\n"),
        };
        fs::write(proc.join("uid_map"), map(self.init_uid, self.command_uid))?;
        fs::write(proc.join("gid_map"), map(self.init_gid, self.command_gid))
    }

    /// Gives a host file to PID 1, or to commands.
    pub(crate) fn own(&self, path: &Path, owner: Owner) -> io::Result<()> {
        let (uid, gid) = match (self.mode, owner) {
            (Mode::Rootless, _) => return Ok(()),
            (Mode::Privileged, Owner::Init) => (self.init_uid, self.init_gid),
            (Mode::Privileged, Owner::Command) => (self.command_uid, self.command_gid),
        };
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::chownat(rustix::fs::CWD, path, Some(uid), Some(gid), flags)?;
        Ok(())
    }
}

/// Who owns a file of the tree.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Owner {
    /// PID 1.
    Init,
    /// The commands' user.
    Command,
}

/// Finds two ids that this user namespace has and that are not in common use.
fn free_pair(map: &Path) -> Option<u32> {
    let text = fs::read_to_string(map).ok()?;
    let ranges: Vec<(u64, u64)> = text.lines().filter_map(range).collect();
    let holds = |id: u64| {
        ranges
            .iter()
            .any(|(first, length)| (*first..first + length).contains(&id))
    };
    if holds(BASE.into()) && holds(u64::from(BASE) + 1) {
        return Some(BASE);
    }
    // A container with a small map: the two highest ids of its largest range, which no
    // distribution gives to a user or a service.
    let (first, length) = ranges.into_iter().max_by_key(|(_, length)| *length)?;
    (length > 1000)
        .then(|| u32::try_from(first + length - 3).ok())
        .flatten()
}

/// Reads one line of an id map: first id inside, and how many.
fn range(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?.parse().ok()?;
    let length = words.nth(1)?.parse().ok()?;
    Some((first, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair_of(map: &str) -> Option<u32> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), map).unwrap();
        free_pair(file.path())
    }

    #[test]
    fn a_whole_host_gives_the_usual_pair() {
        assert_eq!(pair_of("         0          0 4294967295\n"), Some(BASE));
    }

    #[test]
    fn a_container_gives_its_highest_ids() {
        assert_eq!(pair_of("0 100000 65536\n"), Some(65533));
    }

    #[test]
    fn a_single_id_gives_none() {
        assert_eq!(pair_of("0 1000 1\n"), None);
    }
}
