//! What would help where a step was refused.

use std::io;

use rustix::process::geteuid;

use crate::{
    error::step,
    survey::{Switches, lifted},
};

/// Knows what about this host may be the cause.
pub(crate) struct Mender {
    switches: Switches,
    is_root: bool,
    /// How a system call filter around this process is lifted, if there is one.
    barrier: Option<String>,
}

impl Mender {
    /// Looks at this host.
    pub(crate) fn of_host() -> Self {
        Self {
            switches: Switches::of_host(),
            is_root: geteuid().is_root(),
            barrier: lifted(),
        }
    }

    /// Says what would help, where the step and the error have one usual cause.
    pub(crate) fn mend(&self, step: &str, source: &io::Error) -> Option<String> {
        let refused = matches!(
            source.raw_os_error(),
            Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS)
        );
        let advice = match step {
            step::USER_NAMESPACE if refused => return Some(self.users()),
            // AppArmor lets an ordinary user make a user namespace and denies everything in it.
            _ if refused && !self.is_root && self.switches.tame() => return Some(self.users()),
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
            // Such a filter says EPERM, and nothing else that is usual does at the other steps.
            _ if self.barrier.is_some() && source.raw_os_error() == Some(libc::EPERM) => {
                return self.barrier.clone();
            }
            step::NAMESPACES if refused => {
                "the host refuses new namespaces; in a container, start it with \
                 `--security-opt seccomp=unconfined` or give it CAP_SYS_ADMIN"
            }
            step::EXECUTE | step::HELPER if refused => {
                "the host may forbid programs in memory files: set vm.memfd_noexec below 2"
            }
            _ => return None,
        };
        Some(advice.to_owned())
    }

    /// Says how user namespaces are switched on.
    fn users(&self) -> String {
        let commands = self.switches.commands(!self.is_root);
        if !commands.is_empty() {
            let commands = commands.join(" && ");
            return format!("user namespaces are off for this user: as root, `{commands}`");
        }
        self.barrier.clone().unwrap_or_else(|| {
            "user namespaces are refused to this user; `outlast check` says more".to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::shown;

    fn refused() -> io::Error {
        io::Error::from_raw_os_error(libc::EPERM)
    }

    #[test]
    fn namespaces_that_apparmor_tames_are_told_at_the_step_that_fails_of_it() {
        let apparmor = ("kernel.apparmor_restrict_unprivileged_userns", "1");
        let (_folder, switches) = shown(&[apparmor]);
        let mut mender = Mender {
            switches,
            is_root: false,
            barrier: None,
        };
        let command = "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`";
        for step in [step::USER_NAMESPACE, step::NAMESPACES, step::PROC, "mount"] {
            let advice = mender.mend(step, &refused()).unwrap();
            assert!(advice.contains(command), "{step}: {advice}");
        }
        let other = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(mender.mend(step::USER_NAMESPACE, &other), None);
        // Root's are not tamed.
        mender.is_root = true;
        assert_eq!(mender.mend("mount", &refused()), None);
    }

    #[test]
    fn a_filter_is_the_cause_where_nothing_else_is() {
        let (_folder, switches) = shown(&[("kernel.unprivileged_userns_clone", "0")]);
        let mut mender = Mender {
            switches,
            is_root: true,
            barrier: Some("lift it".to_owned()),
        };
        let mends = |mender: &Mender, step| mender.mend(step, &refused()).unwrap();
        for step in [step::USER_NAMESPACE, step::NAMESPACES, "mount"] {
            assert_eq!(mends(&mender, step), "lift it", "{step}");
        }
        assert!(mends(&mender, step::PROC).contains("systempaths=unconfined"));
        mender.is_root = false;
        assert!(mends(&mender, step::USER_NAMESPACE).contains("unprivileged_userns_clone=1"));
    }
}
