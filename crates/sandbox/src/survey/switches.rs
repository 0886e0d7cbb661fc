//! Switches of the kernel that keep user namespaces from being made, or from being worth anything.

use std::{fs, path::PathBuf};

/// With this, ordinary users make user namespaces in which `AppArmor` denies everything.
const APPARMOR: &str = "kernel.apparmor_restrict_unprivileged_userns";

/// Debian's own: whether ordinary users make any.
const ORDINARY: &str = "kernel.unprivileged_userns_clone";

/// How many a user may have.
const MOST: &str = "user.max_user_namespaces";

/// The switches, as the kernel shows them.
#[derive(Debug)]
pub(crate) struct Switches {
    folder: PathBuf,
}

impl Switches {
    /// Returns those of this host.
    pub(crate) fn of_host() -> Self {
        Self::at("/proc/sys")
    }

    /// Returns those that a folder shows.
    pub(crate) fn at(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self { folder }
    }

    /// Reads one; `None` where it does not exist.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        let path = self.folder.join(name.replace('.', "/"));
        Some(fs::read_to_string(path).ok()?.trim().to_owned())
    }

    /// Tells whether one is there and says this.
    fn is(&self, name: &str, value: &str) -> bool {
        self.read(name).as_deref() == Some(value)
    }

    /// Tells whether an ordinary user's namespaces are worth nothing here.
    pub(crate) fn tame(&self) -> bool {
        self.is(APPARMOR, "1")
    }

    /// Returns the commands that mend those which keep user namespaces from being made or used.
    ///
    /// `ordinary` tells whether switches for ordinary users count.
    pub(crate) fn commands(&self, ordinary: bool) -> Vec<String> {
        let wrong = [
            (self.is(MOST, "0"), MOST, 15000),
            (ordinary && self.is(ORDINARY, "0"), ORDINARY, 1),
            (ordinary && self.tame(), APPARMOR, 0),
        ];
        let wrong = wrong.into_iter().filter(|(is_wrong, ..)| *is_wrong);
        wrong
            .map(|(_, name, right)| format!("sysctl -w {name}={right}"))
            .collect()
    }

    /// Describes those that there are.
    pub(crate) fn seen(&self) -> String {
        let seen = [MOST, ORDINARY, APPARMOR].into_iter().filter_map(|name| {
            let value = self.read(name)?;
            Some(format!("{name}={value}"))
        });
        seen.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Shows switches in a folder.
    pub(crate) fn shown(values: &[(&str, &str)]) -> (tempfile::TempDir, Switches) {
        let folder = tempfile::tempdir().unwrap();
        for (name, value) in values {
            let path = folder.path().join(name.replace('.', "/"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{value}\n")).unwrap();
        }
        let switches = Switches::at(folder.path());
        (folder, switches)
    }

    #[test]
    fn a_host_without_them_has_nothing_to_mend() {
        let (_folder, switches) = shown(&[]);
        assert_eq!(switches.commands(true), [""; 0]);
        assert_eq!((switches.tame(), switches.seen()), (false, String::new()));
    }

    #[test]
    fn what_apparmor_restricts_is_an_ordinary_users_trouble() {
        let (_folder, switches) = shown(&[(MOST, "95688"), (APPARMOR, "1")]);
        assert!(switches.tame());
        assert_eq!(
            switches.seen(),
            "user.max_user_namespaces=95688, kernel.apparmor_restrict_unprivileged_userns=1"
        );
        let mend = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
        assert_eq!(switches.commands(true), [mend]);
        assert_eq!(switches.commands(false), [""; 0]);
        let (_folder, lifted) = shown(&[(APPARMOR, "0")]);
        assert!(!lifted.tame() && lifted.commands(true).is_empty());
    }

    #[test]
    fn every_switch_that_is_off_has_its_command() {
        let (_folder, switches) = shown(&[(MOST, "0"), (ORDINARY, "0"), (APPARMOR, "1")]);
        assert_eq!(
            switches.commands(true),
            [
                "sysctl -w user.max_user_namespaces=15000",
                "sysctl -w kernel.unprivileged_userns_clone=1",
                "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            ]
        );
        let all = "sysctl -w user.max_user_namespaces=15000";
        assert_eq!(switches.commands(false), [all]);
    }
}
