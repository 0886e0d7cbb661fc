//! What finds the secrets of one session.

use outlast_protocol::{Secret, credential::Auth, id::VaultId};
use outlast_scrub::Scrubber;
use outlast_store::SealedSecret;

use crate::{Failure, Vault, shelf::Revisions};

impl Vault {
    /// Returns what finds the secrets of these vaults as they are now, or were some seconds ago.
    ///
    /// One that was changed outside the server is left out: nobody is given it either.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub async fn scrubber(&self, vaults: &[VaultId]) -> Result<Scrubber, Failure> {
        if vaults.is_empty() {
            return Ok(Scrubber::new([]));
        }
        let read = self.0.sweepers.get(vaults);
        if let Some(fresh) = read.as_ref().and_then(|read| read.fresh()) {
            return Ok(fresh);
        }
        let (mut of, mut named) = (Revisions::new(), Vec::new());
        for vault in vaults {
            for credential in self.credentials(*vault).await? {
                let owner = credential.id.to_string();
                let Some(sealed) = self.0.store.secret(&owner).await? else {
                    continue;
                };
                let name = match &credential.auth {
                    Auth::EnvironmentVariable { secret_name, .. } => secret_name.clone(),
                    Auth::McpOauth { .. } | Auth::StaticBearer { .. } => owner,
                };
                of.push((sealed.owner.clone(), sealed.revision));
                named.push((format!("secret {name}"), sealed));
            }
        }
        let scrubber = match read.and_then(|read| read.of(&of)) {
            Some(same) => same,
            None => self.scrubber_of(&named)?,
        };
        self.0.sweepers.put(vaults, of, scrubber.clone());
        Ok(scrubber)
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
