//! Why a confined process could not be started.

use std::io;

/// A step on the way to a confined process failed.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}{}", hint(.mend.as_deref()))]
pub struct StartError {
    /// The step, in words, such as `mount a new /proc`.
    pub step: String,
    /// What the system said.
    #[source]
    pub source: io::Error,
    /// What an operator could do about it, where that is known.
    pub mend: Option<String>,
}

/// Puts the advice behind the message.
fn hint(mend: Option<&str>) -> String {
    mend.map(|mend| format!("; {mend}")).unwrap_or_default()
}

impl StartError {
    /// Names the step that failed.
    pub(crate) fn new(step: impl Into<String>, source: io::Error) -> Self {
        let step = step.into();
        let mend = mend(&step, &source);
        Self { step, source, mend }
    }

    /// Makes a closure for `map_err`.
    pub(crate) fn at(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::new(step, source)
    }
}

/// The names of steps whose failure has a known cause.
pub(crate) mod step {
    pub(crate) const USER_NAMESPACE: &str = "make a user namespace";
    pub(crate) const NAMESPACES: &str = "make the other namespaces";
    pub(crate) const OVERLAY: &str = "mount the overlay";
    pub(crate) const DISK: &str = "mount a disk of its own";
    pub(crate) const PROC: &str = "mount a new /proc";
    pub(crate) const READ_ONLY: &str = "make host folders read-only";
    pub(crate) const EXECUTE: &str = "execute the program";
    pub(crate) const HELPER: &str = "start the confinement helper";
}

/// Tells whether an ordinary user's namespaces are worth nothing here.
fn is_tamed() -> bool {
    let switch = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
    !rustix::process::geteuid().is_root()
        && std::fs::read_to_string(switch).is_ok_and(|value| value.trim() == "1")
}

/// Says how user namespaces are switched on.
fn users() -> String {
    let ordinary = !rustix::process::geteuid().is_root();
    let commands = crate::survey::switches(ordinary);
    if commands.is_empty() {
        if let Some(filtered) = crate::survey::filtered() {
            return filtered;
        }
        return "user namespaces are refused to this user; `outlast check` says more".to_owned();
    }
    let commands = commands.join(" && ");
    format!("user namespaces are off for this user: as root, `{commands}`")
}

/// Says what would help, where the step and the error have one usual cause.
fn mend(step: &str, source: &io::Error) -> Option<String> {
    let refused = matches!(
        source.raw_os_error(),
        Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS)
    );
    let advice = match step {
        step::USER_NAMESPACE if refused => return Some(users()),
        step::NAMESPACES if refused => {
            "the host refuses new namespaces; in a container, start it with \
             `--security-opt seccomp=unconfined` or give it CAP_SYS_ADMIN"
        }
        // AppArmor lets an ordinary user make a user namespace and denies everything in it.
        _ if refused && is_tamed() => return Some(users()),
        step::PROC if refused => {
            "/proc of this host is partly hidden, as in a container; start it with \
             `--security-opt systempaths=unconfined`"
        }
        step::OVERLAY => {
            "put the data directory on ext4, xfs, btrfs or a tmpfs of Linux 6.6 or later"
        }
        step::READ_ONLY if source.raw_os_error() == Some(libc::ENOSYS) => {
            "Linux 5.12 or later is needed"
        }
        step::EXECUTE | step::HELPER if refused => {
            "the host may forbid programs in memory files: set vm.memfd_noexec below 2"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}
