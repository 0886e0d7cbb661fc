//! Keys, passed on.

use async_trait::async_trait;
use outlast_protocol::{Micros, id::ApiKeyId};
use outlast_store::{ApiKey, KeyPage, KeyQuery, Keys, ReadError, Receipt, WriteError};

use super::Faulty;

#[async_trait]
impl<S: Keys> Keys for Faulty<S> {
    async fn insert_key(&self, new: ApiKey, receipt: Option<Receipt>) -> Result<(), WriteError> {
        self.here()?;
        self.inner.insert_key(new, receipt).await
    }

    async fn put_key(&self, slot: &str, key: ApiKey) -> Result<(), WriteError> {
        self.inner.put_key(slot, key).await
    }

    async fn drop_key(&self, slot: &str) -> Result<(), WriteError> {
        self.inner.drop_key(slot).await
    }

    async fn revoke_key(&self, id: ApiKeyId, at: Micros) -> Result<ApiKey, WriteError> {
        self.here()?;
        self.inner.revoke_key(id, at).await
    }

    async fn find_key(&self, hash: [u8; 32]) -> Result<Option<ApiKey>, ReadError> {
        self.inner.find_key(hash).await
    }

    async fn keys(&self, query: &KeyQuery) -> Result<KeyPage, ReadError> {
        self.inner.keys(query).await
    }
}
