//! Files that this sandbox alone has, from its launcher: in memory, read-only, over all else. So nothing
//! inside can change them, what was written there before hides none, and they are in no layer that stays.

use std::{
    ffi::CString,
    fs::{self, File},
    io::{self, Read as _},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags},
    mount::{MountFlags, mount, mount_bind_recursive},
};

use super::{
    At as _, Failure,
    root::{ROOT, text},
};
use crate::{
    plan::Plan,
    raw::{Reach, add_mount_attributes},
};

/// Named in errors.
const STEP: &str = "show the files of this sandbox alone";

/// What a file takes beside its bytes, at most.
const PAGE: u64 = 4096;

/// Files and folders that there may be for each file.
const NODES: u64 = 16;

/// Lays them where the tree is about to be mounted over them. Below the writable layer of an overlay they
/// are the topmost too, so that each has a place in the tree and nothing is written for it.
pub(super) fn lay(plan: &Plan, bytes: Option<&OwnedFd>) -> Result<Option<OwnedFd>, Failure> {
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    let files = u64::try_from(plan.cover.len()).unwrap_or(u64::MAX);
    let size: u64 = plan.cover.iter().map(|(_, bytes)| bytes + PAGE).sum();
    let options = text(format!("mode=755,size={size},nr_inodes={}", files * NODES))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", ROOT, "tmpfs", flags, options.as_c_str()).at(STEP)?;
    write(Path::new(ROOT), plan, bytes).at(STEP)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(ROOT, flags, Mode::empty())
        .at(STEP)
        .map(Some)
}

fn write(root: &Path, plan: &Plan, bytes: &OwnedFd) -> io::Result<()> {
    let mut bytes = File::from(bytes.try_clone()?);
    for (path, length) in &plan.cover {
        let path = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        let mut file = File::create_new(&path)?;
        if io::copy(&mut (&mut bytes).take(*length), &mut file)? != *length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Mounts them over the tree that is built.
pub(super) fn show(plan: &Plan, laid: Option<&OwnedFd>) -> Result<(), Failure> {
    let Some(laid) = laid else {
        return Ok(());
    };
    let mut names = plan.cover.iter();
    names
        .try_for_each(|(path, _)| one(path.trim_start_matches('/'), laid))
        .at(STEP)
}

fn one(name: &str, laid: &OwnedFd) -> io::Result<()> {
    let target = make_place(name)?;
    let source = format!("/proc/self/fd/{}/{name}", laid.as_raw_fd());
    mount_bind_recursive(source, &target)?;
    let target = CString::new(target.into_os_string().into_encoded_bytes())?;
    let attributes = libc::MOUNT_ATTR_RDONLY
        | libc::MOUNT_ATTR_NOSUID
        | libc::MOUNT_ATTR_NODEV
        | libc::MOUNT_ATTR_NOEXEC;
    add_mount_attributes(&target, attributes, Reach::All)
}

/// Sees that a plain file stands at a path of the tree, in plain folders all the way: what ran here before
/// may have put anything else there.
fn make_place(name: &str) -> io::Result<PathBuf> {
    let mut path = PathBuf::from(ROOT);
    let mut parts = Path::new(name).components().peekable();
    while let Some(part) = parts.next() {
        path.push(part);
        let is_file = parts.peek().is_none();
        match fs::symlink_metadata(&path) {
            Ok(found) if is_file && found.is_file() || !is_file && found.is_dir() => continue,
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path)?,
            Ok(_) => fs::remove_file(&path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        match is_file {
            true => drop(File::create_new(&path)?),
            false => fs::create_dir(&path)?,
        }
    }
    Ok(path)
}
