//! The file tree: an overlay, host folders shown read-only, and small file systems of its own.

use std::{
    ffi::CString,
    os::fd::{AsRawFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags, mount,
        mount_bind_recursive, mount_change, move_mount, unmount,
    },
};

use super::{At as _, Failure, dev};
use crate::{
    Layering,
    error::step,
    plan::Plan,
    raw::{Reach, add_mount_attributes},
};

/// Where the tree is mounted, relative to the sandbox's folder, which is the working directory.
pub(super) const ROOT: &str = "root";

/// `/tmp` takes at most this part of the memory limit, since what lies in it is memory.
const TMP_SHARE: u64 = 8;

/// Where a disk of the sandbox's own is mounted while the tree is built, relative as [`ROOT`] is.
const DISK: &str = "disk";

/// Goes to the sandbox's folder and opens what lies below the writable layer, while the launcher's
/// own rights still hold: the way there may be closed to the user that the sandbox runs as.
pub(super) fn open(plan: &Plan) -> Result<Vec<OwnedFd>, Failure> {
    rustix::process::chdir(&plan.folder).at("enter the sandbox's folder")?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |path| rustix::fs::open(path, flags, Mode::empty()).at("open the base of the tree");
    plan.lowers.iter().map(open).collect()
}

/// Keeps what is mounted from here on out of sight of everybody else.
pub(super) fn seclude() -> Result<(), Failure> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).at("make mounts private")
}

/// Mounts everything below [`ROOT`].
pub(super) fn build(
    plan: &Plan,
    lowers: &[BorrowedFd<'_>],
    disk: Option<&OwnedFd>,
) -> Result<(), Failure> {
    let within = match disk {
        None => String::new(),
        Some(disk) => {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(disk, "", CWD, DISK, flags).at(step::DISK)?;
            format!("{DISK}/")
        }
    };
    layers(plan.layering, lowers, &within)?;
    for folder in &plan.shown {
        show(folder)?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let size = plan.limits.memory_bytes / TMP_SHARE;
    let options = text(format!("mode=1777,size={size},nr_inodes={}", size >> 12))?;
    mount("tmpfs", inside("tmp"), "tmpfs", flags, options.as_c_str()).at("mount /tmp")?;
    let flags = flags | MountFlags::NOEXEC;
    mount("proc", inside("proc"), "proc", flags, None).at(step::PROC)?;
    dev::build(&inside("dev"), size)
}

/// Mounts the writable layer, which is in the folder or `within` one of it, over the others.
fn layers(layering: Layering, lowers: &[BorrowedFd<'_>], within: &str) -> Result<(), Failure> {
    match layering {
        Layering::Overlay => {
            let names = lowers
                .iter()
                .map(|lower| format!("/proc/self/fd/{}", lower.as_raw_fd()));
            let lower = names.collect::<Vec<_>>().join(":");
            let options = text(format!(
                "lowerdir={lower},upperdir={within}upper,workdir={within}work,userxattr"
            ))?;
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            mount("overlay", ROOT, "overlay", flags, options.as_c_str()).at(step::OVERLAY)
        }
        Layering::Plain => {
            let upper = format!("{within}upper");
            mount_bind_recursive(upper, ROOT).at("mount the writable layer")?;
            let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
            add_mount_attributes(c"root", attributes, Reach::All).at("restrict the writable layer")
        }
    }
}

/// Shows a host folder at the same path, read-only.
fn show(folder: &Path) -> Result<(), Failure> {
    let name = folder.to_string_lossy();
    let target = inside(name.trim_start_matches('/'));
    mount_bind_recursive(folder, &target).at(&format!("show {name}"))?;
    let attributes = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    add_mount_attributes(&text(target)?, attributes, Reach::All).at(step::READ_ONLY)
}

/// Makes the tree the root of this process, and lets go of the host's.
pub(super) fn enter() -> Result<(), Failure> {
    rustix::process::chdir(ROOT).at("enter the tree")?;
    rustix::process::pivot_root(".", ".").at("make the tree the root")?;
    // The old root is now mounted over the new one at the working directory.
    unmount(".", UnmountFlags::DETACH).at("let go of the host's tree")?;
    rustix::process::chdir("/").at("enter the tree")
}

/// Returns the path of `name` below the mount point.
fn inside(name: &str) -> String {
    format!("{ROOT}/{name}")
}

/// Makes a C string.
pub(super) fn text(text: String) -> Result<CString, Failure> {
    CString::new(text)
        .map_err(std::io::Error::from)
        .at("read the plan")
}
