//! The trials, each by a helper of its own.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::Path,
};

use rustix::{
    fs::CWD,
    mount::{OpenTreeFlags, open_tree},
    net::{
        SocketType,
        sockopt::{Timeout, set_socket_timeout},
    },
    process::Pid,
};

use super::{Finding, State, host::Host, layering, lifted};
use crate::{
    Launcher, Purpose, StartError,
    error::step,
    launch::{PATIENCE, pair},
    mapping::{Mode, Owner},
    plan::{self, Down, Trial, Up},
    raw,
};

/// Makes the folders that overlays are tried in.
pub(super) fn prepare(launcher: &Launcher, folder: &Path) -> io::Result<()> {
    for name in ["", "as-root", "inside"] {
        fs::create_dir_all(folder.join(name))?;
        for part in ["lower", "upper", "work", "root"] {
            let path = folder.join(name).join(part);
            fs::create_dir_all(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            if name == "inside" {
                launcher.ids.own(&path, Owner::Init)?;
            }
        }
        if name == "inside" {
            launcher.ids.own(&folder.join(name), Owner::Init)?;
        }
    }
    Ok(())
}

/// Tries a user namespace.
pub(super) fn users(launcher: &Launcher, host: &Host) -> Finding {
    const PART: &str = "user namespaces";
    let seen = host.switches_seen();
    match attempt(launcher, Trial::Users, |_| Ok(())) {
        Ok(()) => Finding::new(PART, State::Good, format!("allowed ({seen})")),
        Err(error) => {
            let found = format!("refused: {} ({seen})", error.source);
            Finding::new(PART, State::Missing, found).mend(host.users_mend())
        }
    }
}

/// Tries the other namespaces.
pub(super) fn others(launcher: &Launcher, host: &Host) -> Finding {
    const PART: &str = "other namespaces";
    match attempt(launcher, Trial::Others, |_| Ok(())) {
        Ok(()) => {
            let found = "mount, pid, network, ipc, uts and cgroup are allowed";
            Finding::new(PART, State::Good, found)
        }
        Err(error) => {
            let found = format!("refused: {}: {}", error.step, error.source);
            Finding::new(PART, State::Missing, found).mend(host.users_mend())
        }
    }
}

/// Tries overlays, as root and inside.
pub(super) fn overlay(launcher: &Launcher, host: &Host, folder: &Path) -> Finding {
    const PART: &str = "overlay";
    let mode = launcher.ids.mode;
    let inside = Trial::OverlayInside(mode, folder.join("inside"));
    let inside = attempt(launcher, inside, |_| Ok(()));
    let as_root = match mode {
        Mode::Privileged => {
            let tried = attempt(launcher, Trial::Overlay(folder.join("as-root")), |_| Ok(()));
            match tried {
                Ok(()) => ", and as root without one",
                Err(_) => ", and is refused as root without one",
            }
        }
        Mode::Rootless => "",
    };
    match inside {
        Ok(()) => {
            let found = format!("{}{as_root}", layering(launcher.verdict().layering));
            Finding::new(PART, State::Good, found)
        }
        // Nothing can be said of it: what comes before it is refused.
        Err(error) if error.step == step::USER_NAMESPACE => {
            let found = format!("not tried: {}", error.source);
            Finding::new(PART, State::Unneeded, found).mend(host.users_mend())
        }
        Err(error) if [step::OVERLAY, step::WRITE].contains(&error.step.as_str()) => {
            let found = format!(
                "refused: {}: {}; layers are whole copies then{as_root}",
                error.step, error.source
            );
            let mend = "set `server.data_dir` to a folder on ext4, xfs, btrfs or a tmpfs of Linux \
                        6.6 or later";
            Finding::new(PART, State::Less, found).mend(Some(mend.to_owned()))
        }
        // Without what comes before it no sandbox has a tree of its own.
        Err(error) => {
            let found = format!("not tried: {}: {}", error.step, error.source);
            Finding::new(PART, State::Missing, found).mend(error.mend)
        }
    }
}

/// Tries the system call filter.
pub(super) fn filter(launcher: &Launcher, host: &Host) -> Finding {
    const PART: &str = "seccomp";
    match attempt(launcher, Trial::Filter, |_| Ok(())) {
        Ok(()) => Finding::new(PART, State::Good, "the filter holds"),
        Err(error) => {
            let found = format!("{}: {}", error.step, error.source);
            let rebuild = || "a kernel with CONFIG_SECCOMP_FILTER=y is needed".to_owned();
            let mend = host.container_mend().or_else(lifted);
            Finding::new(PART, State::Missing, found).mend(Some(mend.unwrap_or_else(rebuild)))
        }
    }
}

/// Tries a mount whose ids are mapped; sandboxes do without, since their files have the ids that
/// they need.
pub(super) fn id_maps(launcher: &Launcher, folder: &Path) -> Finding {
    const PART: &str = "id-mapped mounts";
    if launcher.ids.mode == Mode::Rootless {
        return Finding::new(PART, State::Unneeded, "only root can have them; not needed");
    }
    let map = |users: &OwnedFd| -> io::Result<()> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, folder, flags)?;
        raw::map_ids(tree.as_fd(), users.as_fd())
    };
    let found = match attempt(launcher, Trial::Users, map) {
        Ok(()) => "allowed; not needed".to_owned(),
        Err(error) => format!("refused: {}; not needed", error.source),
    };
    Finding::new(PART, State::Unneeded, found)
}

/// Has a helper try one thing; `with` is done with its user namespace, where it makes one.
fn attempt(
    launcher: &Launcher,
    trial: Trial,
    with: impl Fn(&OwnedFd) -> io::Result<()>,
) -> Result<(), StartError> {
    let at = StartError::at;
    let (ours, theirs) = pair(SocketType::SEQPACKET)?;
    set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE))
        .map_err(|error| StartError::new(step::HELPER, error.into()))?;
    let spawned = launcher.spawner.spawn(&launcher.helper, theirs);
    let mut helper = spawned.map_err(at(step::HELPER))?;
    let outcome = (|| {
        let pid = i32::try_from(helper.id()).ok().and_then(Pid::from_raw);
        let pid =
            pid.ok_or_else(|| StartError::new(step::HELPER, io::ErrorKind::InvalidData.into()))?;
        plan::send(ours.as_fd(), &Down::Try(trial), &[]).map_err(at(step::HELPER))?;
        loop {
            match plan::receive::<Up>(&ours).map_err(at("hear from the helper"))? {
                Some((Up::Unshared, _)) => {
                    launcher
                        .ids
                        .write_maps(pid, Purpose::Commands)
                        .map_err(at("give ids to the user namespace"))?;
                    let place = format!("/proc/{}/ns/user", pid.as_raw_nonzero());
                    let users = File::open(place).map_err(at("open the user namespace"))?;
                    with(&users.into()).map_err(at("use the user namespace"))?;
                    plan::send(ours.as_fd(), &Down::Mapped, &[])
                        .map_err(at("hear from the helper"))?;
                }
                Some((Up::Failed { step, errno }, _)) => {
                    return Err(StartError::new(step, io::Error::from_raw_os_error(errno)));
                }
                Some((Up::Born(_), _)) | None => return Ok(()),
            }
        }
    })();
    if outcome.is_err() {
        // Fails only if it has ended.
        drop(helper.kill());
    }
    drop(ours);
    let ended = helper
        .wait()
        .map_err(at("wait for the confinement helper"))?;
    outcome.and_then(|()| {
        let early = || StartError::new(step::HELPER, io::ErrorKind::UnexpectedEof.into());
        ended.success().then_some(()).ok_or_else(early)
    })
}
