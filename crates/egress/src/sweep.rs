//! The kernel's sweep, over the vault.

use async_trait::async_trait;
use outlast_kernel::{Finder, Sweep};
use outlast_protocol::id::{ResourceId, SessionId, VaultId};
use outlast_scrub::Scrubber;
use outlast_store::{Away, ReadError};
use outlast_vault::{Failure, Vault};

/// Knows the secrets of a session by its vaults and repositories.
#[derive(Clone, Debug)]
pub struct Sweeper(Vault);

impl Sweeper {
    /// Makes one over the vault that egress takes its credentials from.
    pub fn new(vault: Vault) -> Self {
        Self(vault)
    }
}

#[async_trait]
impl Sweep for Sweeper {
    async fn of(
        &self,
        session: SessionId,
        vaults: &[VaultId],
        repositories: &[ResourceId],
    ) -> Result<Finder, ReadError> {
        match self.0.scrubber(vaults, repositories).await {
            Ok(scrubber) => Ok(Finder::Here(scrubber)),
            Err(Failure::Store(words)) => Err(ReadError::Unavailable(Away::other(words))),
            Err(failure) => {
                // Whoever put a secret into a request could open it, and so can this, by then.
                tracing::warn!(session.id = %session, "a result is not swept: {failure}");
                Ok(Finder::Here(Scrubber::new([])))
            }
        }
    }
}
