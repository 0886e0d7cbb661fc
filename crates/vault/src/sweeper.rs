//! What finds the secrets of one session.

use outlast_protocol::{
    Secret,
    credential::Auth,
    id::{ResourceId, VaultId},
};
use outlast_scrub::Scrubber;
use outlast_store::SealedSecret;

use crate::{Failure, Vault, shelf::Revisions};

/// Where a session has secrets from.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Lender {
    /// All credentials of a vault.
    Vault(VaultId),
    /// The token of a repository.
    Repository(ResourceId),
}

/// Secrets, and what is said where they were.
type Named = Vec<(String, SealedSecret)>;

impl Vault {
    /// Returns what finds the secrets of these vaults and repositories as they are now, or were some
    /// seconds ago.
    ///
    /// One that was changed outside the server is left out: nobody is given it either.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub async fn scrubber(
        &self,
        vaults: &[VaultId],
        repositories: &[ResourceId],
    ) -> Result<Scrubber, Failure> {
        let repositories = repositories.iter().map(|id| Lender::Repository(*id));
        let vaults = vaults.iter().map(|id| Lender::Vault(*id));
        let lenders: Vec<_> = vaults.chain(repositories).collect();
        if lenders.is_empty() {
            return Ok(Scrubber::new([]));
        }
        let version = self.0.sweepers.version();
        let read = self.0.sweepers.get(&lenders);
        if let Some(fresh) = read.as_ref().and_then(|read| read.fresh(version)) {
            return Ok(fresh);
        }
        let mut named = Named::new();
        for lender in &lenders {
            match lender {
                Lender::Vault(vault) => self.of_vault(*vault, &mut named).await?,
                Lender::Repository(resource) => {
                    let owner = resource.to_string();
                    let sealed = self.0.store.secret(&owner).await?;
                    named.extend(sealed.map(|sealed| (format!("secret {owner}"), sealed)));
                }
            }
        }
        let of: Revisions = named
            .iter()
            .map(|(_, sealed)| (sealed.owner.clone(), sealed.revision))
            .collect();
        let scrubber = match read.and_then(|read| read.of(&of)) {
            Some(same) => same,
            None => self.scrubber_of(&named)?,
        };
        self.0.sweepers.put(&lenders, version, of, scrubber.clone());
        Ok(scrubber)
    }

    /// Adds the secrets of a vault.
    async fn of_vault(&self, vault: VaultId, named: &mut Named) -> Result<(), Failure> {
        for credential in self.credentials(vault).await? {
            let owner = credential.id.to_string();
            let Some(sealed) = self.0.store.secret(&owner).await? else {
                continue;
            };
            let name = match &credential.auth {
                Auth::EnvironmentVariable { secret_name, .. } => secret_name.clone(),
                Auth::McpOauth { .. } | Auth::StaticBearer { .. } => owner,
            };
            named.push((format!("secret {name}"), sealed));
        }
        Ok(())
    }

    fn scrubber_of(&self, named: &[(String, SealedSecret)]) -> Result<Scrubber, Failure> {
        let mut secrets: Vec<(&str, Secret)> = Vec::new();
        for (name, sealed) in named {
            match self.open(sealed) {
                Ok(content) => {
                    let all = content.secrets().into_iter().cloned();
                    secrets.extend(all.map(|secret| (name.as_str(), secret)));
                }
                Err(error) if error.is_of_master_key() => return Err(error.into()),
                Err(error) => tracing::error!("{error}"),
            }
        }
        let each = secrets.iter().map(|(name, secret)| (*name, secret));
        Ok(Scrubber::named(each))
    }
}
