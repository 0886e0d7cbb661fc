//! What may be asked of secrets without being shown one.
//!
//! Whoever serves clients brings secrets and has them sealed, tried and turned; nothing here opens one. So
//! the vault may stand in another process, under another user, and whoever owns this one finds no secret.

pub mod conformance;

use std::fmt::Debug;

use async_trait::async_trait;
use outlast_protocol::{
    Micros,
    credential::Validation,
    id::{CredentialId, VaultId},
};
use outlast_store::SealedSecret;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{
    Content, Failure, Holding, NotTurned, Opening, Order, Sealing, Turned, Vault,
    order::{is_moved, is_widened},
};

/// Keeps secrets, and shows none.
#[async_trait]
pub trait Custodian: Debug + Send + Sync {
    /// Seals what an order brings; what it does not bring is taken from what is sealed already.
    ///
    /// # Errors
    ///
    /// If nothing can be sealed now, if what it takes the place of is not the revision before, or if a
    /// secret that is kept would go to another place by it.
    async fn secure(&self, order: Order) -> Result<SealedSecret, Declined>;

    /// Returns when a sealed access token ends, as far as that is known.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or is no access token.
    async fn end_of(&self, sealed: &SealedSecret) -> Result<Option<Micros>, Declined>;

    /// Tries an OAuth credential against its server; a 401 has it renewed and tried once more.
    ///
    /// # Errors
    ///
    /// If its secret cannot be read; what servers say is no error.
    async fn validate(
        &self,
        vault: VaultId,
        credential: CredentialId,
    ) -> Result<Validation, Declined>;

    /// Says which master keys there are, and how many records are under each.
    ///
    /// # Errors
    ///
    /// If the records cannot be read.
    async fn holding(&self) -> Result<Holding, Declined>;

    /// Brings all records under another master key. It goes on if nobody waits for it.
    ///
    /// # Errors
    ///
    /// If there is none to turn to, or the records cannot be read or written.
    async fn turn(&self) -> Result<Turned, Declined>;

    /// Has nothing count that was read of secrets so far: some were changed. When this returns, what begins
    /// to leave does so with what is stored now.
    async fn outdate(&self);

    /// Returns why secrets cannot be used, if they cannot: words for an operator, that say what to do.
    fn trouble(&self) -> Option<String>;

    /// Returns why it is not reached, if it is in another process that is away; some of that is
    /// [`trouble`](Self::trouble) too.
    fn away(&self) -> Option<String> {
        None
    }

    /// Returns a key that opens no secret, the same at all times; none while there is trouble.
    fn derive(&self, purpose: Purpose) -> Option<Zeroizing<[u8; 32]>>;
}

/// What keys may be derived for by whoever has no secret.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To hash requests with secrets in them under.
    Receipts,
    /// To make tokens of brains under.
    BrainTokens,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Self::Receipts => "receipts",
            Self::BrainTokens => "brain tokens",
        }
    }
}

/// Why something was not done. No variant has a secret in its words.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Declined {
    /// No secret can be used now; says what to do.
    #[error("{0}")]
    Locked(String),
    /// The store cannot be read or written.
    #[error("the store failed: {0}")]
    Away(String),
    /// The credential was archived or deleted meanwhile.
    #[error("the credential `{0}` is gone")]
    Gone(CredentialId),
    /// It cannot be as it was asked.
    #[error("{0}")]
    Invalid(String),
    /// A fault.
    #[error("{0}")]
    Broken(String),
}

impl From<Sealing> for Declined {
    fn from(fault: Sealing) -> Self {
        Self::Locked(fault.to_string())
    }
}

impl From<Opening> for Declined {
    fn from(fault: Opening) -> Self {
        if fault.is_of_master_key() {
            Self::Locked(fault.to_string())
        } else {
            Self::Broken(fault.to_string())
        }
    }
}

impl From<Failure> for Declined {
    fn from(fault: Failure) -> Self {
        match fault {
            Failure::Locked(fault) => fault.into(),
            Failure::Unsealed(fault) => fault.into(),
            Failure::Gone { credential } => Self::Gone(credential),
            Failure::Store(reason) => Self::Away(reason),
            Failure::NotRenewable { .. }
            | Failure::Refused { .. }
            | Failure::Unsure { .. }
            | Failure::Unreached { .. }
            | Failure::Busy { .. } => Self::Broken(fault.to_string()),
        }
    }
}

impl From<NotTurned> for Declined {
    fn from(fault: NotTurned) -> Self {
        match fault {
            NotTurned::NoMasterKey(_) | NotTurned::Missing(_) => Self::Locked(fault.to_string()),
            NotTurned::Single(_) => Self::Invalid(fault.to_string()),
            NotTurned::Store(reason) => Self::Away(reason),
        }
    }
}

#[async_trait]
impl Custodian for Vault {
    async fn secure(&self, order: Order) -> Result<SealedSecret, Declined> {
        let Order {
            owner,
            parent,
            revision,
            purpose,
            brought,
            before,
        } = order;
        let lost = || Declined::Broken(format!("a secret of `{owner}` is lost"));
        let content = match before {
            None => brought.content(purpose).ok_or_else(lost)?,
            Some(before) => {
                let follows = before.revision.checked_add(1) == Some(revision);
                if !follows || before.owner != owner || before.parent != parent {
                    let words = format!("what `{owner}` is to replace is another's");
                    return Err(Declined::Broken(words));
                }
                let (held, is_new) = (self.open(&before)?, brought.main.is_some());
                let content = brought.or(&held).content(purpose).ok_or_else(lost)?;
                self.stays(&held, &content, is_new)?;
                content
            }
        };
        Ok(self.seal(&owner, &parent, revision, &content)?)
    }

    async fn end_of(&self, sealed: &SealedSecret) -> Result<Option<Micros>, Declined> {
        match self.open(sealed)? {
            Content::McpOauth { expires_at, .. } => Ok(expires_at),
            Content::StaticBearer { .. }
            | Content::EnvironmentVariable { .. }
            | Content::Repository { .. } => {
                let words = format!("`{}` has no end", sealed.owner);
                Err(Declined::Broken(words))
            }
        }
    }

    async fn validate(
        &self,
        vault: VaultId,
        credential: CredentialId,
    ) -> Result<Validation, Declined> {
        Ok(Self::validate(self, vault, credential).await?)
    }

    async fn holding(&self) -> Result<Holding, Declined> {
        Self::holding(self).await.map_err(Declined::Away)
    }

    async fn turn(&self) -> Result<Turned, Declined> {
        let vault = self.clone();
        let turning = self.0.tasks.spawn(async move { Self::turn(&vault).await });
        let turned = turning.await;
        let died = |fault| Declined::Broken(format!("the rotation died: {fault}"));
        Ok(turned.map_err(died)??)
    }

    async fn outdate(&self) {
        self.0.shelf.outdate();
        self.0.tokens.outdate();
        self.0.sweepers.outdate();
    }

    fn trouble(&self) -> Option<String> {
        Self::trouble(self)
    }

    fn derive(&self, purpose: Purpose) -> Option<Zeroizing<[u8; 32]>> {
        Self::derive(self, purpose.name(), b"")
    }
}

impl Vault {
    /// Refuses to send a secret that is kept to where it was not sealed for.
    fn stays(&self, before: &Content, after: &Content, is_new: bool) -> Result<(), Declined> {
        if is_moved(before, after) {
            let words = "a secret that is kept stays with its server and its kind";
            return Err(Declined::Broken(words.to_owned()));
        }
        if self.0.wary && !is_new && is_widened(before, after) {
            let words = "auth.networking: hosts can be added only together with `secret_value` while the \
                         egress runs under a user of its own";
            return Err(Declined::Invalid(words.to_owned()));
        }
        Ok(())
    }
}
