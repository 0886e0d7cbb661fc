//! What the host says of itself, and the commands that change it.

use std::{fs, path::Path};

use rustix::{process::geteuid, system::uname};

use super::{Finding, State, Switches, barrier};
use crate::{cgroup, disk};

/// What to do once a shell has control groups.
const FROM_THERE: &str = " and start the server from that shell";

/// What was read of the host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) user: String,
    pub(super) kernel: String,
    pub(super) container: Option<String>,
    is_root: bool,
    switches: Switches,
}

impl Host {
    /// Reads it.
    pub(super) fn look() -> Self {
        let uid = geteuid();
        Self {
            user: format!("{} (uid {})", name_of(uid.as_raw()), uid.as_raw()),
            kernel: uname().release().to_string_lossy().into_owned(),
            container: container(),
            is_root: uid.is_root(),
            switches: Switches::of_host(),
        }
    }

    /// Returns a command as this user has to give it.
    fn as_root(&self, command: &str) -> String {
        if self.is_root {
            command.to_owned()
        } else {
            format!("sudo {command}")
        }
    }

    /// Returns the command that lets this user make user namespaces, if a switch forbids it.
    pub(super) fn users_mend(&self) -> Option<String> {
        let switches = self.switches.commands(!self.is_root);
        let mut commands: Vec<String> = switches.iter().map(|line| self.as_root(line)).collect();
        if commands.is_empty() {
            commands.extend(self.container_mend().or_else(barrier::lifted));
        }
        (!commands.is_empty()).then(|| commands.join(" && "))
    }

    /// Describes the switches for user namespaces that there are.
    pub(super) fn switches_seen(&self) -> String {
        self.switches.seen()
    }

    /// Returns how a container is started that may have sandboxes inside.
    pub(super) fn container_mend(&self) -> Option<String> {
        self.container.as_ref().map(|_| {
            "start the container with `--security-opt seccomp=unconfined --security-opt \
             apparmor=unconfined --security-opt systempaths=unconfined`"
                .to_owned()
        })
    }

    /// Returns the command that gives this user control groups.
    pub(super) fn groups_mend(&self) -> Option<String> {
        let has_systemd = Path::new("/run/systemd/system").is_dir();
        let is_second = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let text = if self.container.is_some() {
            let start = "start the container with `--privileged --cgroupns=private`";
            if self.is_root {
                start.to_owned()
            } else {
                format!("run the server as root in the container; if root has none either, {start}")
            }
        } else if !Path::new("/proc/self/cgroup").exists() {
            return None;
        } else if is_second && has_systemd {
            let user = if self.is_root { "" } else { "--user " };
            format!("systemd-run {user}--scope -p Delegate=yes outlast serve")
        } else if is_second {
            let (own, leaf) = ("/sys/fs/cgroup/outlast-user", cgroup::LEAF);
            let make = format!(
                "sh -c 'echo \"+memory +pids +cpu\" > /sys/fs/cgroup/cgroup.subtree_control; \
                 mkdir -p {own}/{leaf} && chown -R {} {own} && echo '$$' > \
                 {own}/{leaf}/cgroup.procs'",
                geteuid().as_raw()
            );
            self.as_root(&make) + FROM_THERE
        } else if Path::new("/sys/fs/cgroup/memory").is_dir() {
            let make = format!(
                "sh -c 'for c in memory pids cpu; do d=/sys/fs/cgroup/$c/outlast-user; mkdir -p $d \
                 && chown -R {} $d && echo '$$' > $d/cgroup.procs; done'",
                geteuid().as_raw()
            );
            self.as_root(&make) + FROM_THERE
        } else {
            self.as_root("mount -t cgroup2 none /sys/fs/cgroup")
        };
        Some(text)
    }

    /// Returns the command that gives sandboxes disks of their own.
    pub(super) fn disks_mend(&self, reason: &str) -> Option<String> {
        if !self.is_root {
            return Some("run the server as root".to_owned());
        }
        if disk::find_program("mkfs.ext4").is_none() {
            return Some("apt-get install e2fsprogs".to_owned());
        }
        if reason.contains("loop-control") {
            return Some(match &self.container {
                Some(_) => "start the container with `--privileged`".to_owned(),
                None => "modprobe loop".to_owned(),
            });
        }
        reason
            .contains("configuration")
            .then(|| "set `hands.disks = \"auto\"`".to_owned())
    }

    /// Tells whether programs in memory files may be executed.
    pub(super) fn programs_in_memory(&self) -> Finding {
        const PART: &str = "memory files";
        match self.switches.read("vm.memfd_noexec").as_deref() {
            Some("2") => {
                let found = "vm.memfd_noexec is 2: the sandbox's own programs cannot be executed";
                Finding::new(PART, State::Missing, found)
                    .mend(Some(self.as_root("sysctl -w vm.memfd_noexec=1")))
            }
            Some(_) | None => Finding::new(PART, State::Good, "programs in them can be executed"),
        }
    }

    /// Tells whether this is a container.
    pub(super) fn container_finding(&self) -> Finding {
        const PART: &str = "container";
        match &self.container {
            Some(kind) => {
                let found = format!("{kind}: what is refused above may be its doing");
                Finding::new(PART, State::Unneeded, found)
            }
            None => Finding::new(PART, State::Unneeded, "this is not one"),
        }
    }
}

/// Finds out what kind of container this is, by the marks that engines leave.
pub(super) fn container() -> Option<String> {
    let marks = [
        ("/.dockerenv", "docker"),
        ("/run/.containerenv", "podman"),
        ("/dev/.lxc-boot-id", "lxc"),
    ];
    if let Some((_, kind)) = marks.iter().find(|(mark, _)| Path::new(mark).exists()) {
        return Some((*kind).to_owned());
    }
    if let Ok(kind) = fs::read_to_string("/run/systemd/container") {
        return Some(kind.trim().to_owned());
    }
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let kinds = ["kubepods", "docker", "libpod", "lxc", "garden"];
    let by_group = kinds.iter().find(|kind| groups.contains(**kind));
    by_group.map(|kind| (*kind).to_owned())
}

/// Returns the name of a user.
fn name_of(uid: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number: u32 = fields.nth(1)?.parse().ok()?;
        (number == uid).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| "a user without a name".to_owned())
}
