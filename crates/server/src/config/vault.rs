//! Where master keys come from.

use std::path::{Path, PathBuf};

use outlast_protocol::Secret;
use outlast_vault::keyring::{FILE, Source};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::{Impossible, print};

/// Where master keys come from: at most one of these, else a file of our own in the data directory.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Vault {
    /// The keys themselves, the current one first.
    #[serde(
        serialize_with = "print::secret",
        skip_serializing_if = "Option::is_none"
    )]
    pub master_key: Option<SecretString>,
    /// A file that has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_key_file: Option<PathBuf>,
    /// A command that prints them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_key_command: Option<String>,
}

impl Vault {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        let set = [
            (
                "vault.master_key (OUTLAST_MASTER_KEY)",
                self.master_key.is_some(),
            ),
            ("vault.master_key_file", self.master_key_file.is_some()),
            (
                "vault.master_key_command",
                self.master_key_command.is_some(),
            ),
        ];
        let set: Vec<_> = set
            .iter()
            .filter(|(_, set)| *set)
            .map(|(name, _)| *name)
            .collect();
        if set.len() > 1 {
            let reason = format!("only one of them may be set, not {}", set.join(" and "));
            return Err(Impossible::new("vault", reason));
        }
        Ok(())
    }

    /// Returns where master keys come from.
    pub fn source(&self, data_dir: &Path) -> Source {
        match (
            &self.master_key,
            &self.master_key_file,
            &self.master_key_command,
        ) {
            (Some(keys), ..) => Source::Set(Secret::from(keys.expose_secret())),
            (None, Some(path), _) => Source::File(path.clone()),
            (None, None, Some(line)) => Source::Command(line.clone()),
            (None, None, None) => Source::Own(data_dir.join(FILE)),
        }
    }
}
