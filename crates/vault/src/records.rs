//! Where a vault finds what it opens.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use outlast_protocol::{credential::Credential, id::VaultId};
use outlast_store::{Order, ReadError, ResourceKind, ResourceQuery, Secrets, Store};

/// More than a vault has.
const MOST: usize = 100;

/// What a vault works with: sealed secrets, and what they are of. Nothing of it is a secret itself.
#[derive(Clone, Debug)]
pub struct Records {
    /// The sealed secrets.
    pub secrets: Arc<dyn Secrets>,
    /// The credentials that they are of.
    pub registry: Arc<dyn Registry>,
}

/// Knows credentials by their vaults.
#[async_trait]
pub trait Registry: Debug + Send + Sync {
    /// Returns the active credentials of a vault, oldest first.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    async fn credentials(&self, vault: VaultId) -> Result<Vec<Credential>, ReadError>;
}

impl From<Arc<dyn Store>> for Records {
    fn from(store: Arc<dyn Store>) -> Self {
        Self {
            secrets: store.clone(),
            registry: Arc::new(store),
        }
    }
}

#[async_trait]
impl Registry for Arc<dyn Store> {
    async fn credentials(&self, vault: VaultId) -> Result<Vec<Credential>, ReadError> {
        let query = ResourceQuery {
            kind: ResourceKind::Credential,
            parent: Some(vault.to_string()),
            created_gte: None,
            created_lte: None,
            archived: false,
            order: Order::Forwards,
            after: None,
            limit: MOST,
        };
        let page = self.list(&query).await?;
        let read = |body: &str| {
            serde_json::from_str(body)
                .map_err(|error| ReadError::Unreadable(format!("a credential: {error}")))
        };
        page.items
            .iter()
            .map(|item| read(item.body.get()))
            .collect()
    }
}
