//! Files that this sandbox alone has, from its launcher: in memory, over all that lies below what is
//! written. So they go with it, and are in no layer that stays.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::fd::OwnedFd,
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags},
    mount::{MountFlags, mount},
};

use super::{
    At as _, Failure,
    root::{ROOT, text},
};
use crate::{Layering, plan::Plan};

/// Named in errors.
const STEP: &str = "show the files of this sandbox alone";

/// What a file takes beside its bytes, at most.
const PAGE: u64 = 4096;

/// Files and folders that there may be for each file.
const NODES: u64 = 16;

/// Lays them where the tree is about to be mounted over them, as the topmost of what lies below the
/// writable layer; nothing where that is the whole tree.
pub(super) fn below(plan: &Plan, bytes: Option<&OwnedFd>) -> Result<Option<OwnedFd>, Failure> {
    let Some(bytes) = bytes.filter(|_| plan.layering == Layering::Overlay) else {
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

/// Puts them into a plain tree, which is the root by now: a link in it leads nowhere else.
pub(super) fn within(plan: &Plan, bytes: Option<&OwnedFd>) -> Result<(), Failure> {
    match bytes.filter(|_| plan.layering == Layering::Plain) {
        Some(bytes) => write(Path::new("/"), plan, bytes).at(STEP),
        None => Ok(()),
    }
}

fn write(root: &Path, plan: &Plan, bytes: &OwnedFd) -> io::Result<()> {
    let mut bytes = File::from(bytes.try_clone()?);
    for (path, length) in &plan.cover {
        let path = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = File::create_new(&path)?;
        if io::copy(&mut (&mut bytes).take(*length), &mut file)? != *length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}
