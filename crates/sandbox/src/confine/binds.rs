//! Host folders of this sandbox alone, shown read-only at a path of their own.

use std::{
    ffi::CString,
    os::fd::{AsRawFd as _, OwnedFd},
};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    mount::mount_bind_recursive,
};

use super::{At as _, Failure, root::ROOT};
use crate::{
    error::step,
    plan::{Bind, Plan},
    raw::{Reach, add_mount_attributes},
};

/// Opens them while the launcher's own rights still hold, as the skeleton is.
pub(super) fn open(plan: &Plan) -> Result<Vec<OwnedFd>, Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let open = |bind: &Bind| {
        rustix::fs::open(&bind.from, flags, Mode::empty())
            .at(&format!("open what {} shows", bind.to))
    };
    plan.binds.iter().map(open).collect()
}

/// Mounts them over the tree that is built.
pub(super) fn show(plan: &Plan, folders: &[OwnedFd]) -> Result<(), Failure> {
    for (bind, folder) in plan.binds.iter().zip(folders) {
        one(bind, folder)?;
    }
    Ok(())
}

fn one(bind: &Bind, folder: &OwnedFd) -> Result<(), Failure> {
    let doing = format!("show {}", bind.to);
    let name = bind.to.trim_start_matches('/');
    // What ran here before may have put a link in the way, which would lead out of the tree.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let tree = rustix::fs::open(ROOT, flags, Mode::empty()).at(&doing)?;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(&tree, name, flags, Mode::empty(), within).at(&doing)?;
    let target = format!("{ROOT}/{name}");
    let source = format!("/proc/self/fd/{}", folder.as_raw_fd());
    mount_bind_recursive(source.as_str(), target.as_str()).at(&doing)?;
    let attributes = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    let target = CString::new(target)
        .map_err(std::io::Error::from)
        .at(&doing)?;
    add_mount_attributes(&target, attributes, Reach::All).at(step::READ_ONLY)
}
