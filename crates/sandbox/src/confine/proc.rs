//! Hides the parts of `/proc` that speak of the host, and makes its switches read-only.

use std::{ffi::CString, fs, path::Path};

use rustix::mount::{MountFlags, mount, mount_bind, mount_bind_recursive};

use super::{At as _, Failure};
use crate::raw::{Reach, add_mount_attributes};

/// Files replaced by an empty one.
const HIDDEN_FILES: &[&str] = &[
    "/proc/config.gz",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/sched_debug",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
];

/// Folders replaced by an empty one.
const HIDDEN_FOLDERS: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/driver",
    "/proc/dynamic_debug",
    "/proc/scsi",
];

/// Folders that stay readable.
const READ_ONLY: &[&str] = &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"];

/// Message queues that there may be, each of 16 KiB.
const QUEUES: u64 = 256;

/// Bounds what System V segments and queues take of memory, which stay when nobody has them any more.
///
/// A kernel that leaves this to root of the host has it refused; a control group counts them all the same.
pub(super) fn bound_ipc(memory: u64) {
    let pages = memory / rustix::param::page_size() as u64;
    for (file, most) in [("shmall", pages), ("msgmni", QUEUES)] {
        drop(fs::write(
            Path::new("/proc/sys/kernel").join(file),
            most.to_string(),
        ));
    }
}

/// Masks `/proc`; what this kernel does not have is skipped.
pub(super) fn mask() -> Result<(), Failure> {
    for file in present(HIDDEN_FILES) {
        mount_bind("/dev/null", file).at(&format!("hide {file}"))?;
    }
    for folder in present(HIDDEN_FOLDERS) {
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", folder, "tmpfs", flags, c"size=0,mode=555").at(&format!("hide {folder}"))?;
    }
    for folder in present(READ_ONLY) {
        protect(folder)?;
    }
    Ok(())
}

/// Makes a folder read-only where it is.
fn protect(folder: &str) -> Result<(), Failure> {
    let step = format!("make {folder} read-only");
    mount_bind_recursive(folder, folder).at(&step)?;
    let path = CString::new(folder)
        .map_err(std::io::Error::from)
        .at(&step)?;
    add_mount_attributes(&path, libc::MOUNT_ATTR_RDONLY, Reach::All).at(&step)
}

/// Returns the paths that exist.
fn present(paths: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    paths
        .iter()
        .copied()
        .filter(|path| Path::new(path).exists())
}
