//! Packages that a hand has beside what it stands on, and where they come from.
//!
//! They come from folders of this machine that an operator fills, one mirror for each manager, or where
//! there is none from the public registries, through the way out of the sandbox that installs them.

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
    /// A repository of Debian packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apt: Option<PathBuf>,
    /// Crates, unpacked or as a registry in files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cargo: Option<PathBuf>,
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
    /// Returns the folder of one manager.
    pub fn of(&self, manager: Manager) -> Option<&Path> {
        let folder = match manager {
            Manager::Apt => &self.apt,
            Manager::Cargo => &self.cargo,
            Manager::Gem => &self.gem,
            Manager::Go => &self.go,
            Manager::Npm => &self.npm,
            Manager::Pip => &self.pip,
        };
        folder.as_deref()
    }

    /// Says why this manager's packages cannot be had over an image, or over the machine's own programs,
    /// and what mends it; `None` if its mirror is there, or none is set and what has none may be fetched.
    /// Looks at the disk.
    pub fn lacks(&self, manager: Manager, image: Option<&str>, rest: Rest) -> Option<String> {
        let name = manager.as_str();
        if manager == Manager::Apt && image.is_none() {
            // The machine's own programs are shown, and belong to the machine.
            return Some(
                "apt packages are installed over an image alone; choose one that has apt by the \
                 environment's metadata `outlast.image`"
                    .to_owned(),
            );
        }
        match self.of(manager) {
            None if rest == Rest::Fetched => None,
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

/// What becomes of packages that have no mirror.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rest {
    /// They cannot be had.
    #[default]
    Refused,
    /// They are fetched from where their manager looks by itself, through a way out: that of the hand
    /// they are for leads there while they are installed.
    Fetched,
}

/// What is to be installed in a hand.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Wanted {
    /// The packages.
    pub packages: Packages,
    /// Where they come from.
    pub mirrors: Mirrors,
    /// What becomes of those that have no mirror.
    #[serde(default)]
    pub rest: Rest,
    /// The longest that the installation of all of them may take.
    pub limit: Duration,
}

impl Wanted {
    /// Says why this manager's packages cannot be had, as [`Mirrors::lacks`] does.
    pub fn lacks(&self, manager: Manager, image: Option<&str>) -> Option<String> {
        self.mirrors.lacks(manager, image, self.rest)
    }

    /// Tells whether something may be fetched.
    pub fn is_fetched(&self) -> bool {
        let mut managers = self.packages.managers();
        self.rest == Rest::Fetched && managers.any(|manager| self.mirrors.of(manager).is_none())
    }
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
        assert_eq!(mirrors.lacks(Manager::Pip, None, Rest::Refused), None);
        let unset = mirrors
            .lacks(Manager::Gem, Some("x"), Rest::Refused)
            .unwrap();
        assert!(
            unset.contains("`gem = \"/path/of/a/folder\"` to `[hands.packages]`"),
            "{unset}"
        );
        let never = mirrors.lacks(Manager::Apt, None, Rest::Refused).unwrap();
        assert!(never.contains("over an image alone"), "{never}");
        let unset = mirrors
            .lacks(Manager::Apt, Some("x"), Rest::Refused)
            .unwrap();
        assert!(unset.contains("`apt = \""), "{unset}");
        let gone = mirrors.lacks(Manager::Npm, None, Rest::Refused).unwrap();
        assert!(
            gone.contains("`npm = \"/nowhere/npm\"` of `[hands.packages]`"),
            "{gone}"
        );
    }

    #[test]
    fn what_has_no_mirror_may_be_fetched_and_a_broken_one_is_no_reason_to() {
        let mirrors = Mirrors {
            npm: Some("/nowhere/npm".into()),
            ..Mirrors::default()
        };
        let lacks = |manager, image| mirrors.lacks(manager, image, Rest::Fetched);
        assert_eq!(lacks(Manager::Pip, None), None);
        assert_eq!(lacks(Manager::Apt, Some("x")), None);
        assert!(
            lacks(Manager::Apt, None).is_some(),
            "the machine's own programs stay"
        );
        assert!(lacks(Manager::Npm, None).unwrap().contains("is not there"));
    }
}
