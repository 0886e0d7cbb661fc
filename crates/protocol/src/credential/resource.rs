//! The credential as it is stored and shown.

use serde::{Deserialize, Serialize};

use super::Auth;
use crate::id::{CredentialId, VaultId};
use crate::{Metadata, Micros};

/// A credential without its secrets.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "vault_credential")]
pub struct Credential {
    /// Its id.
    pub id: CredentialId,
    /// When it was archived; its secrets are gone since, and it never changes again.
    pub archived_at: Option<Micros>,
    /// What it is good for.
    pub auth: Auth,
    /// When it was created.
    pub created_at: Micros,
    /// What people call it.
    pub display_name: Option<String>,
    /// The client's own pairs.
    pub metadata: Metadata,
    /// When it last changed.
    pub updated_at: Micros,
    /// The vault that it belongs to.
    pub vault_id: VaultId,
}

impl Credential {
    /// Makes the archived credential, or `None` if it is archived already.
    pub fn archive(&self, now: Micros) -> Option<Self> {
        let archived = || Self {
            archived_at: Some(now),
            updated_at: now,
            ..self.clone()
        };
        self.archived_at.is_none().then(archived)
    }
}
