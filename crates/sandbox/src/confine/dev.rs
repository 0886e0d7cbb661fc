//! A small `/dev`: six harmless devices, terminals and shared memory of its own.

use std::{ffi::CString, fs::File, io, os::unix::fs::symlink};

use rustix::{
    fs::{CWD, Mode, mkdirat},
    mount::{MountFlags, mount, mount_bind},
};

use super::{At as _, Failure};
use crate::raw::{Reach, add_mount_attributes};

/// The host's devices that are shown.
const DEVICES: &[&str] = &["full", "null", "random", "tty", "urandom", "zero"];

/// Links, as every Linux has them.
const LINKS: &[(&str, &str)] = &[
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
];

/// Builds `/dev` at `at`; shared memory holds at most `shm` bytes.
pub(super) fn build(at: &str, shm: u64) -> Result<(), Failure> {
    let quiet = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("tmpfs", at, "tmpfs", quiet, c"mode=755,size=64k").at("mount /dev")?;
    for name in DEVICES {
        let target = format!("{at}/{name}");
        File::create(&target).at("make a place for a device")?;
        mount_bind(format!("/dev/{name}"), &target).at(&format!("show /dev/{name}"))?;
    }
    for (to, name) in LINKS {
        symlink(to, format!("{at}/{name}")).at("make links in /dev")?;
    }
    for name in ["pts", "shm"] {
        mkdirat(CWD, format!("{at}/{name}"), Mode::RWXU).at("make folders in /dev")?;
    }
    let pts = c"newinstance,ptmxmode=0666,mode=0620";
    mount("devpts", format!("{at}/pts"), "devpts", quiet, pts).at("mount /dev/pts")?;
    let options = CString::new(format!("mode=1777,size={shm},nr_inodes={}", shm >> 12))
        .map_err(io::Error::from)
        .at("mount /dev/shm")?;
    let flags = quiet | MountFlags::NODEV;
    mount(
        "tmpfs",
        format!("{at}/shm"),
        "tmpfs",
        flags,
        options.as_c_str(),
    )
    .at("mount /dev/shm")
}

/// Makes `/dev` itself read-only, once nothing needs to be mounted on it.
pub(super) fn seal() -> Result<(), Failure> {
    add_mount_attributes(c"/dev", libc::MOUNT_ATTR_RDONLY, Reach::One).at("make /dev read-only")
}
