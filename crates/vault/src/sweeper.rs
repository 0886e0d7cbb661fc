//! What finds the secrets of one session.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use outlast_protocol::{
    Secret,
    credential::Auth,
    id::{CredentialId, VaultId},
};
use tokio::time::Instant;

use crate::{Failure, Vault, scrub::Scrubber};

/// How long what was read counts.
const FRESH: Duration = Duration::from_secs(5);

/// How long it is kept for the next one that asks.
const KEPT: Duration = Duration::from_secs(600);

/// Those that were made, by the vaults that they are for.
#[derive(Debug, Default)]
pub(crate) struct Sweepers(Mutex<HashMap<Vec<VaultId>, Made>>);

/// One, of secrets at these revisions.
#[derive(Clone, Debug)]
struct Made {
    looked: Instant,
    of: Vec<(CredentialId, u64)>,
    scrubber: Scrubber,
}

impl Sweepers {
    fn get(&self, vaults: &[VaultId]) -> Option<Made> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, made| made.looked.elapsed() < KEPT);
        all.get(vaults).cloned()
    }

    fn put(&self, vaults: &[VaultId], of: Vec<(CredentialId, u64)>, scrubber: Scrubber) {
        let looked = Instant::now();
        let made = Made {
            looked,
            of,
            scrubber,
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(vaults.to_vec(), made);
    }
}

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
        let made = self.0.sweepers.get(vaults);
        if let Some(made) = made.as_ref().filter(|made| made.looked.elapsed() < FRESH) {
            return Ok(made.scrubber.clone());
        }
        let (mut of, mut named) = (Vec::new(), Vec::new());
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
                of.push((credential.id, sealed.revision));
                named.push((format!("secret {name}"), sealed));
            }
        }
        let scrubber = match made {
            Some(made) if made.of == of => made.scrubber,
            Some(_) | None => self.scrubber_of(&named)?,
        };
        self.0.sweepers.put(vaults, of, scrubber.clone());
        Ok(scrubber)
    }

    fn scrubber_of(
        &self,
        named: &[(String, outlast_store::SealedSecret)],
    ) -> Result<Scrubber, Failure> {
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
