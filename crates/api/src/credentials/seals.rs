//! Credentials and the vault that can read them.

use outlast_protocol::{
    ErrorCode, Problem,
    credential::{Auth, Credential},
    id::CredentialId,
};
use outlast_store::{Away, SealedSecret};
use outlast_vault::{Content, Failure, Opening};

use super::Hidden;
use crate::{app::App, extract::unknown, failure, plain};

impl App {
    /// Seals the secrets of a credential, and what it is good for.
    pub(super) fn seal(
        &self,
        credential: &Credential,
        revision: u64,
        hidden: Hidden,
    ) -> Result<SealedSecret, Problem> {
        let content = hidden.content(&credential.auth);
        let lost = || failure::internal(&format_args!("a secret of `{}` is lost", credential.id));
        let (owner, parent) = (credential.id.to_string(), credential.vault_id.to_string());
        let sealed = self
            .vault
            .seal(&owner, &parent, revision, &content.ok_or_else(lost)?);
        sealed.map_err(|fault| locked(&fault))
    }

    /// Returns a credential as it is now, and where they are wanted its secrets with their revision.
    pub(super) async fn opened(
        &self,
        stored: Credential,
        wanted: bool,
    ) -> Result<(Credential, Option<(Hidden, u64)>), Problem> {
        if !wanted {
            return Ok((self.renewed(stored).await?, None));
        }
        let lost = || failure::internal(&format_args!("the secret of `{}` is lost", stored.id));
        let secret = self.secret(&stored).await?.ok_or_else(lost)?;
        let content = self.vault.open(&secret).map_err(|fault| closed(&fault))?;
        let current = Credential {
            auth: with_end_of(stored.auth.clone(), &content),
            ..stored
        };
        Ok((current, Some((Hidden::held(content), secret.revision))))
    }

    /// Returns a credential with the end of the access token that it has now: renewals change no more
    /// than the secret. One that cannot be opened is shown as it was stored.
    pub(super) async fn renewed(&self, stored: Credential) -> Result<Credential, Problem> {
        let renews = matches!(
            stored.auth,
            Auth::McpOauth {
                refresh: Some(_),
                ..
            }
        );
        if !renews || stored.archived_at.is_some() {
            return Ok(stored);
        }
        let secret = self.secret(&stored).await?;
        let content = secret.and_then(|secret| self.vault.open(&secret).ok());
        Ok(match content {
            None => stored,
            Some(content) => Credential {
                auth: with_end_of(stored.auth.clone(), &content),
                ..stored
            },
        })
    }

    async fn secret(&self, credential: &Credential) -> Result<Option<SealedSecret>, Problem> {
        let secrets = self.kernel.secrets();
        let found = secrets.secret(&credential.id.to_string()).await;
        found.map_err(|fault| plain::failed(&fault))
    }
}

fn with_end_of(auth: Auth, content: &Content) -> Auth {
    match (auth, content) {
        (
            Auth::McpOauth {
                mcp_server_url,
                refresh,
                ..
            },
            Content::McpOauth { expires_at, .. },
        ) => Auth::McpOauth {
            mcp_server_url,
            expires_at: *expires_at,
            refresh,
        },
        (auth, _) => auth,
    }
}

/// Returns what a client is told of a try that failed for a reason of our own.
pub(super) fn failed(fault: &Failure) -> Problem {
    match fault {
        Failure::Locked(fault) => closed(fault),
        Failure::Unsealed(fault) => locked(fault),
        Failure::Gone { credential } => unknown::<CredentialId>(credential),
        Failure::Store(reason) => failure::unavailable(&Away::other(reason)),
        Failure::NotRenewable { .. }
        | Failure::Refused { .. }
        | Failure::Unsure { .. }
        | Failure::Unreached { .. }
        | Failure::Busy { .. } => failure::internal(fault),
    }
}

/// Returns what a client is told while no secret can be sealed or opened.
pub(crate) fn locked(why: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%why, "the vault is locked: {why}");
    Problem::new(
        ErrorCode::VaultLocked,
        format!("{why}; nothing was accepted"),
    )
}

fn closed(fault: &Opening) -> Problem {
    match fault {
        Opening::NoMasterKey { .. } | Opening::WrongMasterKey { .. } => locked(fault),
        Opening::Tampered { .. } | Opening::Newer { .. } => failure::internal(fault),
    }
}
