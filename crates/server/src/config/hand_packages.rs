//! Where the packages of environments come from, and what their installation may take.

use std::{path::PathBuf, time::Duration};

use outlast_hands::packages::Mirrors;
use outlast_protocol::environment::Manager;
use serde::{Deserialize, Serialize};

use super::{Impossible, within};

/// One folder by manager, and bounds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct HandPackages {
    /// The longest that the packages of one environment may take to be installed.
    pub install_seconds: u64,
    /// How long what is installed may lie unused before it is removed.
    pub keep_days: u64,
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

impl Default for HandPackages {
    fn default() -> Self {
        Self {
            install_seconds: 600,
            keep_days: 30,
            apt: None,
            cargo: None,
            gem: None,
            go: None,
            npm: None,
            pip: None,
        }
    }
}

/// Makes a refusal of a manager's folder.
fn refused(manager: Manager, words: String) -> Impossible {
    let key = match manager {
        Manager::Apt => "hands.packages.apt",
        Manager::Cargo => "hands.packages.cargo",
        Manager::Gem => "hands.packages.gem",
        Manager::Go => "hands.packages.go",
        Manager::Npm => "hands.packages.npm",
        Manager::Pip => "hands.packages.pip",
    };
    Impossible::new(key, words)
}

impl HandPackages {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        within(
            "hands.packages.install_seconds",
            self.install_seconds,
            1..=86_400,
        )?;
        within("hands.packages.keep_days", self.keep_days, 1..=36_500)?;
        let mirrors = self.mirrors();
        for (_, manager) in Manager::TABLE {
            if let Some(folder) = mirrors.of(*manager).filter(|folder| !folder.is_absolute()) {
                let words = format!("must be an absolute path, not `{}`", folder.display());
                return Err(refused(*manager, words));
            }
        }
        Ok(())
    }

    /// Looks whether the folders are there. Apart from [`check`](super::Config::check), because only
    /// a server needs them.
    ///
    /// # Errors
    ///
    /// The first one that is not.
    pub fn look(&self) -> Result<(), Impossible> {
        let mirrors = self.mirrors();
        for (_, manager) in Manager::TABLE {
            if let Some(folder) = mirrors.of(*manager).filter(|folder| !folder.is_dir()) {
                let words = format!("there is no folder `{}`", folder.display());
                return Err(refused(*manager, words));
            }
        }
        Ok(())
    }

    /// Returns the folders by manager.
    pub fn mirrors(&self) -> Mirrors {
        Mirrors {
            apt: self.apt.clone(),
            cargo: self.cargo.clone(),
            gem: self.gem.clone(),
            go: self.go.clone(),
            npm: self.npm.clone(),
            pip: self.pip.clone(),
        }
    }

    /// Returns the longest that an installation may take.
    pub fn install(&self) -> Duration {
        Duration::from_secs(self.install_seconds)
    }

    /// Returns how long a layer may lie unused.
    pub fn unused(&self) -> Duration {
        Duration::from_secs(self.keep_days * 24 * 3600)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_absolute_and_there() {
        let mut packages = HandPackages::default();
        assert_eq!((packages.check(), packages.look()), (Ok(()), Ok(())));
        packages.pip = Some("mirror".into());
        let error = packages.check().unwrap_err().to_string();
        assert_eq!(
            error,
            "`hands.packages.pip`: must be an absolute path, not `mirror`"
        );
        packages.pip = Some("/nowhere/mirror".into());
        packages.check().unwrap();
        let error = packages.look().unwrap_err().to_string();
        assert_eq!(
            error,
            "`hands.packages.pip`: there is no folder `/nowhere/mirror`"
        );
    }
}
