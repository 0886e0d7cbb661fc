//! The contract of API keys: known by the hash of their secret, never by the secret.

use std::fmt::Debug;

use async_trait::async_trait;
use outlast_protocol::{Micros, id::ApiKeyId, key::Scope};

use crate::{Order, ReadError, Receipt, WriteError};

/// API keys.
///
/// Whether one is valid is not decided here: a store also finds those that expired or were revoked.
#[async_trait]
pub trait Keys: Debug + Send + Sync {
    /// Stores a new key, with the receipt of its request in the same transaction.
    ///
    /// A known hash or id is refused as [`WriteError::Moved`].
    async fn insert_key(&self, new: ApiKey, receipt: Option<Receipt>) -> Result<(), WriteError>;

    /// Makes a key the one that this node itself has in a slot, in place of the one before, which is
    /// no key any more.
    ///
    /// A known hash keeps its id, its name and its age, and stays revoked if it was.
    async fn put_key(&self, slot: &str, key: ApiKey) -> Result<(), WriteError>;

    /// Empties a slot of this node, if there is anything in it.
    async fn drop_key(&self, slot: &str) -> Result<(), WriteError>;

    /// Revokes a key, for good; returns it. One that was revoked before stays so since then.
    async fn revoke_key(&self, id: ApiKeyId, at: Micros) -> Result<ApiKey, WriteError>;

    /// Finds a key by the hash of its secret.
    async fn find_key(&self, hash: [u8; 32]) -> Result<Option<ApiKey>, ReadError>;

    /// Lists keys by time of creation.
    async fn keys(&self, query: &KeyQuery) -> Result<KeyPage, ReadError>;
}

/// An API key without its secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApiKey {
    /// Its id.
    pub id: ApiKeyId,
    /// BLAKE3 of the secret.
    pub hash: [u8; 32],
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// When it was made.
    pub created_at: Micros,
    /// From when on it is valid no more.
    pub expires_at: Option<Micros>,
    /// When it was revoked.
    pub revoked_at: Option<Micros>,
}

impl ApiKey {
    /// Tells whether it is a key at that moment.
    pub fn is_valid(&self, now: Micros) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// Which keys to list.
#[derive(Clone, Copy, Debug)]
pub struct KeyQuery {
    /// Whether those that were revoked count.
    pub revoked: bool,
    /// Which way.
    pub order: Order,
    /// Keys behind this one in that order: (creation, id).
    pub after: Option<(Micros, ApiKeyId)>,
    /// At most so many.
    pub limit: usize,
}

/// A page of keys.
#[derive(Clone, Debug)]
pub struct KeyPage {
    /// The keys.
    pub items: Vec<ApiKey>,
    /// Whether more follow in the same order.
    pub more: bool,
}
