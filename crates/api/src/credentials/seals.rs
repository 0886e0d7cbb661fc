//! Credentials and the vault that can read them.

use outlast_protocol::{
    ErrorCode, Micros, Problem,
    credential::{Auth, Credential},
    id::CredentialId,
};
use outlast_store::{Away, SealedSecret};
use outlast_vault::{Brought, Declined, Order, Use};

use crate::{app::App, extract::unknown, failure, plain};

impl App {
    /// Seals the secrets of a credential, and what it is good for; what is not brought stays as it is
    /// sealed.
    pub(super) async fn seal(
        &self,
        credential: &Credential,
        brought: Brought,
        before: Option<SealedSecret>,
    ) -> Result<SealedSecret, Problem> {
        let revision = before.as_ref().map_or(0, |before| before.revision);
        let order = Order {
            owner: credential.id.to_string(),
            parent: credential.vault_id.to_string(),
            revision: revision.saturating_add(1),
            purpose: Use::Credential(credential.auth.clone()),
            brought,
            before,
        };
        let sealed = self.vault.secure(order).await;
        sealed.map_err(|fault| failed(&fault))
    }

    /// Returns a credential as it is now, and where it is wanted what is sealed of it.
    pub(super) async fn opened(
        &self,
        stored: Credential,
        wanted: bool,
    ) -> Result<(Credential, Option<SealedSecret>), Problem> {
        if !wanted {
            return Ok((self.renewed(stored).await?, None));
        }
        let lost = || failure::internal(&format_args!("the secret of `{}` is lost", stored.id));
        let secret = self.secret(&stored).await?.ok_or_else(lost)?;
        if !matches!(stored.auth, Auth::McpOauth { .. }) {
            return Ok((stored, Some(secret)));
        }
        let end = self.vault.end_of(&secret).await;
        let end = end.map_err(|fault| failed(&fault))?;
        Ok((ending(stored, end), Some(secret)))
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
        let Some(secret) = self.secret(&stored).await? else {
            return Ok(stored);
        };
        Ok(match self.vault.end_of(&secret).await {
            Ok(end) => ending(stored, end),
            Err(_) => stored,
        })
    }

    async fn secret(&self, credential: &Credential) -> Result<Option<SealedSecret>, Problem> {
        let secrets = self.kernel.secrets();
        let found = secrets.secret(&credential.id.to_string()).await;
        found.map_err(|fault| plain::failed(&fault))
    }
}

/// Returns a credential with another end of its access token.
fn ending(mut credential: Credential, end: Option<Micros>) -> Credential {
    if let Auth::McpOauth { expires_at, .. } = &mut credential.auth {
        *expires_at = end;
    }
    credential
}

/// Returns what a client is told while a secret cannot be sealed, opened or tried for a reason of our own.
pub(crate) fn failed(fault: &Declined) -> Problem {
    match fault {
        Declined::Locked(why) => {
            tracing::error!(%why, "the vault is locked: {why}");
            Problem::new(
                ErrorCode::VaultLocked,
                format!("{why}; nothing was accepted"),
            )
        }
        Declined::Away(reason) => failure::unavailable(&Away::other(reason)),
        Declined::Gone(credential) => unknown::<CredentialId>(credential),
        Declined::Invalid(words) => Problem::invalid(words.clone()),
        Declined::Broken(words) => failure::internal(words),
    }
}
