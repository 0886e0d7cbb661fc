//! Packages that a hand has beside what it stands on, and where they come from.
//!
//! Hands have no network, so packages come from folders of this machine that an operator fills:
//! one mirror for each manager.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use outlast_protocol::environment::{Manager, Packages};
use serde::{Deserialize, Serialize};

/// The folders that packages come from, by manager.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Mirrors {
    /// Gems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gem: Option<PathBuf>,
    /// A module proxy in files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub go: Option<PathBuf>,
    /// A cache of npm's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub npm: Option<PathBuf>,
    /// Wheels and source distributions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pip: Option<PathBuf>,
}

impl Mirrors {
    /// Returns the folder of one manager; managers without a key have none.
    pub fn of(&self, manager: Manager) -> Option<&Path> {
        let folder = match manager {
            Manager::Apt | Manager::Cargo => &None,
            Manager::Gem => &self.gem,
            Manager::Go => &self.go,
            Manager::Npm => &self.npm,
            Manager::Pip => &self.pip,
        };
        folder.as_deref()
    }

    /// Says why this manager's packages cannot be had and which line of the configuration mends it;
    /// `None` if its mirror is there. Looks at the disk.
    pub fn lacks(&self, manager: Manager) -> Option<String> {
        let name = manager.as_str();
        if !is_supported(manager) {
            return Some(format!(
                "{name} packages are not installed by this version; leave the list empty, or choose \
                 an image that has them by the environment's metadata `outlast.image`"
            ));
        }
        match self.of(manager) {
            None => Some(format!(
                "this server has no mirror of {name} packages; add `{name} = \"/path/of/a/folder\"` to \
                 `[hands.packages]` in its configuration"
            )),
            Some(folder) if !folder.is_dir() => Some(format!(
                "this server's mirror of {name} packages, `{folder}`, is not there; mend the line \
                 `{name} = \"{folder}\"` of `[hands.packages]` in its configuration",
                folder = folder.display()
            )),
            Some(_) => None,
        }
    }
}

/// Tells whether this version installs packages of a manager.
///
/// Debian's need a root file system that can be written to, Rust's a compiler and a linker in it.
pub const fn is_supported(manager: Manager) -> bool {
    match manager {
        Manager::Apt | Manager::Cargo => false,
        Manager::Gem | Manager::Go | Manager::Npm | Manager::Pip => true,
    }
}

/// What is to be installed in a hand.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Wanted {
    /// The packages.
    pub packages: Packages,
    /// Where they come from.
    pub mirrors: Mirrors,
    /// The longest that the installation of all of them may take.
    pub limit: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_names_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let mirrors = Mirrors {
            pip: Some(dir.path().to_owned()),
            npm: Some("/nowhere/npm".into()),
            ..Mirrors::default()
        };
        assert_eq!(mirrors.lacks(Manager::Pip), None);
        let unset = mirrors.lacks(Manager::Gem).unwrap();
        assert!(
            unset.contains("`gem = \"/path/of/a/folder\"` to `[hands.packages]`"),
            "{unset}"
        );
        let never = mirrors.lacks(Manager::Cargo).unwrap();
        assert!(never.contains("not installed by this version"), "{never}");
        let gone = mirrors.lacks(Manager::Npm).unwrap();
        assert!(
            gone.contains("`npm = \"/nowhere/npm\"` of `[hands.packages]`"),
            "{gone}"
        );
    }
}
