//! Tokens for MCP servers.

use std::time::Duration;

use outlast_protocol::{
    Micros,
    credential::{Auth, normal},
    id::{CredentialId, VaultId},
};
use outlast_store::SealedSecret;

use crate::{Content, Failure, Opening, Secret, Vault};

/// How long before its end a token is refreshed: longer than a request is on its way.
const AHEAD: Duration = Duration::from_secs(60);

/// A token for an MCP server.
#[derive(Clone, Debug)]
pub struct Bearer {
    /// The token.
    pub token: Secret,
    /// The credential that it is of.
    pub credential: CredentialId,
    /// The vault of that.
    pub vault: VaultId,
    /// The revision of the secret that it was read at.
    revision: u64,
    /// Whether another one can be had.
    renewable: bool,
}

impl Vault {
    /// Returns the token for an MCP server: of the first of these vaults that has a credential for its
    /// URL, compared by [`normal`] form. One that ends within a minute is refreshed first. `None` if no
    /// vault has one.
    ///
    /// # Errors
    ///
    /// If there is a credential and it gives no token.
    pub async fn bearer(&self, vaults: &[VaultId], url: &str) -> Result<Option<Bearer>, Failure> {
        let wanted = normal(url);
        for vault in vaults {
            for credential in self.credentials(*vault).await? {
                let (Auth::McpOauth { mcp_server_url, .. } | Auth::StaticBearer { mcp_server_url }) =
                    &credential.auth
                else {
                    continue;
                };
                if normal(mcp_server_url) != wanted {
                    continue;
                }
                let (owner, vault) = (credential.id, credential.vault_id);
                // Archived or deleted just now: as if it had not been there.
                let Some(sealed) = self.0.store.secret(&owner.to_string()).await? else {
                    continue;
                };
                return self.lend(owner, vault, sealed, &wanted).await.map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the token that takes the place of one that was refused with a 401.
    ///
    /// If another took its place meanwhile, that is it; else it is refreshed now, by one of all who ask.
    ///
    /// # Errors
    ///
    /// If there is none: also where it cannot be refreshed at all.
    pub async fn renewed(&self, refused: &Bearer) -> Result<Bearer, Failure> {
        if !refused.renewable {
            return Err(Failure::NotRenewable {
                credential: refused.credential,
            });
        }
        let content = self.refresh(refused.credential, refused.revision).await?;
        bearer(refused.credential, refused.vault, content)
    }

    async fn lend(
        &self,
        owner: CredentialId,
        vault: VaultId,
        sealed: SealedSecret,
        wanted: &str,
    ) -> Result<Bearer, Failure> {
        let content = self.open(&sealed)?;
        let (Content::StaticBearer { url, .. } | Content::McpOauth { url, .. }) = &content else {
            return Err(Opening::Tampered {
                owner: sealed.owner,
            }
            .into());
        };
        // What counts is what was sealed.
        if normal(url) != wanted {
            return Err(Opening::Tampered {
                owner: sealed.owner,
            }
            .into());
        }
        let soon = self.0.clock.now().after(AHEAD);
        let renewed = if ends_before(&content, soon) {
            self.refresh(owner, sealed.revision).await?
        } else {
            (content, sealed.revision)
        };
        bearer(owner, vault, renewed)
    }
}

/// Tells whether it ends before then, and another can be had.
fn ends_before(content: &Content, then: Micros) -> bool {
    let Content::McpOauth {
        expires_at: Some(end),
        refresh: Some(_),
        ..
    } = content
    else {
        return false;
    };
    *end <= then
}

fn bearer(
    credential: CredentialId,
    vault: VaultId,
    (content, revision): (Content, u64),
) -> Result<Bearer, Failure> {
    let (token, renewable) = match content {
        Content::StaticBearer { token, .. } => (token, false),
        Content::McpOauth {
            access_token,
            refresh,
            ..
        } => (access_token, refresh.is_some()),
        Content::EnvironmentVariable { .. } | Content::Repository { .. } => {
            let owner = credential.to_string();
            return Err(Opening::Tampered { owner }.into());
        }
    };
    Ok(Bearer {
        token,
        credential,
        vault,
        revision,
        renewable,
    })
}
