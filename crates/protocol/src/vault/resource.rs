//! The vault as it is stored and shown.

use serde::{Deserialize, Serialize};

use crate::id::VaultId;
use crate::{Metadata, Micros};

/// A vault; sessions name it to use the credentials in it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "vault")]
pub struct Vault {
    /// Its id.
    pub id: VaultId,
    /// When it was archived; its credentials went with it, and it never changes again.
    pub archived_at: Option<Micros>,
    /// When it was created.
    pub created_at: Micros,
    /// What people call it.
    pub display_name: String,
    /// The client's own pairs.
    pub metadata: Metadata,
    /// When it last changed.
    pub updated_at: Micros,
}

impl Vault {
    /// Makes the archived vault, or `None` if it is archived already.
    pub fn archive(&self, now: Micros) -> Option<Self> {
        let archived = || Self {
            archived_at: Some(now),
            updated_at: now,
            ..self.clone()
        };
        self.archived_at.is_none().then(archived)
    }
}
