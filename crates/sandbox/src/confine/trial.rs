//! Trying one thing, to tell an operator what exactly this host refuses.

use std::{fs::File, io, os::fd::AsFd as _, os::fd::OwnedFd, path::Path};

use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    thread::set_no_new_privs,
};

use super::{At as _, Failure, identity, wait_for_ids};
use crate::{
    Purpose,
    error::step,
    mapping::Mode,
    plan::{self, Trial, Up},
    raw, seccomp,
};

/// The namespaces beside that of users, by name.
const OTHERS: [(&str, libc::c_int); 6] = [
    ("mount", libc::CLONE_NEWNS),
    ("pid", libc::CLONE_NEWPID),
    ("network", libc::CLONE_NEWNET),
    ("ipc", libc::CLONE_NEWIPC),
    ("uts", libc::CLONE_NEWUTS),
    ("cgroup", libc::CLONE_NEWCGROUP),
];

/// Tries it; success is no failure.
pub(super) fn run(trial: &Trial, socket: &OwnedFd) -> Result<(), Failure> {
    if trial.needs_users() {
        raw::unshare_user().at(step::USER_NAMESPACE)?;
        plan::send(socket.as_fd(), &Up::Unshared, &[]).at("report to the launcher")?;
        wait_for_ids(socket)?;
    }
    match trial {
        Trial::Users => Ok(()),
        Trial::Others => OTHERS.iter().try_for_each(|(name, kind)| {
            raw::unshare(*kind).at(&format!("make a {name} namespace"))
        }),
        Trial::Overlay(folder) => overlay(folder, None),
        Trial::OverlayInside(mode, folder) => overlay(folder, Some(*mode)),
        Trial::Filter => filter(),
    }
}

/// Mounts an overlay and writes to it: one whose folders have the wrong owner is silently read-only.
fn overlay(folder: &Path, mode: Option<Mode>) -> Result<(), Failure> {
    rustix::process::chdir(folder).at("enter the folder")?;
    if let Some(mode) = mode {
        identity::take(mode)?;
    }
    raw::unshare(libc::CLONE_NEWNS).at("make a mount namespace")?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).at("make mounts private")?;
    let options = c"lowerdir=lower,upperdir=upper,workdir=work,userxattr";
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("overlay", "root", "overlay", flags, options).at(step::OVERLAY)?;
    File::create("root/file").at(step::WRITE).map(drop)
}

/// Installs the filter and does what it forbids.
fn filter() -> Result<(), Failure> {
    set_no_new_privs(true).at("set no_new_privs")?;
    seccomp::install(Purpose::Commands).map_err(|error| {
        let step = format!("install the system call filter ({error})");
        Failure::new(step, &io::ErrorKind::Other.into())
    })?;
    match raw::unshare(libc::CLONE_NEWUTS) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(()),
        Err(error) => Err(Failure::new("be refused by the filter", &error)),
        Ok(()) => {
            let passed = io::Error::from_raw_os_error(libc::EEXIST);
            Err(Failure::new("be refused by the filter", &passed))
        }
    }
}
