//! The credentials that egress puts in the place of placeholders.

use std::{collections::HashSet, sync::Arc};

use outlast_protocol::{
    credential::{Auth, Credential},
    id::{CredentialId, VaultId},
};
use outlast_store::{ReadError, SealedSecret};

use crate::{Content, Failure, Hosts, Secret, Vault, shelf::Revisions};

/// A credential that egress puts in the place of a placeholder.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Which.
    pub credential: CredentialId,
    /// The vault it is in.
    pub vault: VaultId,
    /// The variable.
    pub name: String,
    /// Its value.
    pub value: Secret,
    /// Which hosts may get it.
    pub hosts: Hosts,
    /// Whether it is put into headers.
    pub header: bool,
    /// Whether it is put into bodies.
    pub body: bool,
}

impl Vault {
    /// Returns the variables of these vaults. Of several with one name that of the first vault counts.
    ///
    /// What another server changes is seen some seconds later; as long as nothing changes, the same `Arc` is
    /// returned. One that was changed outside the server is left out.
    ///
    /// # Errors
    ///
    /// If they cannot be read: there is no master key, or not the right one, or no store.
    pub async fn placed(&self, vaults: &[VaultId]) -> Result<Arc<[Placed]>, Failure> {
        if vaults.is_empty() {
            return Ok(Arc::default());
        }
        let version = self.0.shelf.version();
        let read = self.0.shelf.get(vaults);
        if let Some(fresh) = read.as_ref().and_then(|read| read.fresh(version)) {
            return Ok(fresh);
        }
        let found = self.variables(vaults).await?;
        let of: Revisions = found
            .iter()
            .map(|(_, sealed)| (sealed.owner.clone(), sealed.revision))
            .collect();
        let placed = match read.and_then(|read| read.of(&of)) {
            Some(same) => same,
            None => self.place_all(&found)?,
        };
        self.0.shelf.put(vaults, version, of, placed.clone());
        Ok(placed)
    }

    /// Returns the variables of these vaults, the first of a name alone, with their secrets.
    async fn variables(
        &self,
        vaults: &[VaultId],
    ) -> Result<Vec<(Credential, SealedSecret)>, Failure> {
        let (mut found, mut names) = (Vec::new(), HashSet::new());
        for vault in vaults {
            for credential in self.credentials(*vault).await? {
                let Auth::EnvironmentVariable { secret_name, .. } = &credential.auth else {
                    continue;
                };
                let sealed = self.0.store.secret(&credential.id.to_string()).await?;
                if let Some(sealed) = sealed
                    && names.insert(secret_name.clone())
                {
                    found.push((credential, sealed));
                }
            }
        }
        Ok(found)
    }

    fn place_all(&self, found: &[(Credential, SealedSecret)]) -> Result<Arc<[Placed]>, Failure> {
        let mut placed = Vec::with_capacity(found.len());
        for (credential, sealed) in found {
            match self.open(sealed) {
                Ok(content) => placed.extend(place(credential, content)),
                Err(error) if error.is_of_master_key() => return Err(error.into()),
                Err(error) => tracing::error!("{error}"),
            }
        }
        Ok(placed.into())
    }

    /// Returns the active credentials of a vault, oldest first.
    pub(crate) async fn credentials(&self, vault: VaultId) -> Result<Vec<Credential>, Failure> {
        Ok(self.0.registry.credentials(vault).await?)
    }
}

/// Returns what was sealed of a variable: its name counts as it was sealed.
fn place(credential: &Credential, content: Content) -> Option<Placed> {
    let Content::EnvironmentVariable {
        name,
        value,
        hosts,
        header,
        body,
    } = content
    else {
        return None;
    };
    Some(Placed {
        credential: credential.id,
        vault: credential.vault_id,
        name,
        value,
        hosts,
        header,
        body,
    })
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::Store(error.to_string())
    }
}
