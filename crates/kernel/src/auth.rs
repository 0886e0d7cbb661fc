//! API keys: known by hash, never by secret.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use outlast_protocol::{ErrorCode, Problem, id::ApiKeyId};
use outlast_store::ApiKey;

use crate::{Kernel, error};

/// Keys that were found before, by hash.
#[derive(Debug, Default)]
pub(crate) struct Keys(Mutex<HashMap<[u8; 32], ApiKeyId>>);

impl Kernel {
    /// Returns whose secret this is.
    ///
    /// The secret is compared as a BLAKE3 hash; what a timing could tell is about the hash alone.
    pub async fn authenticate(&self, secret: &str) -> Result<ApiKeyId, Problem> {
        let hash: [u8; 32] = blake3::hash(secret.as_bytes()).into();
        if let Some(id) = self.0.keys.known(&hash) {
            return Ok(id);
        }
        let found = self
            .0
            .store
            .find_key(hash)
            .await
            .map_err(|fault| error::read(&fault))?;
        let key =
            found.ok_or_else(|| Problem::new(ErrorCode::Authentication, "invalid API key"))?;
        self.0.keys.learn(hash, key.id);
        Ok(key.id)
    }

    /// Makes a secret the one of a name; another that had the name is valid no more.
    pub async fn admit_key(&self, secret: &str, name: &str) -> Result<(), Problem> {
        let hash: [u8; 32] = blake3::hash(secret.as_bytes()).into();
        let id = ApiKeyId::mint(self.now(), self.entropy());
        let key = ApiKey {
            id,
            hash,
            name: name.to_owned(),
            created_at: self.now(),
        };
        self.0
            .store
            .put_key(key)
            .await
            .map_err(|fault| error::write(&fault))?;
        self.0.keys.forget();
        Ok(())
    }

    /// Takes back the secret of a name, if there is one.
    pub async fn revoke_key(&self, name: &str) -> Result<(), Problem> {
        let dropped = self.0.store.drop_key(name).await;
        dropped.map_err(|fault| error::write(&fault))?;
        self.0.keys.forget();
        Ok(())
    }
}

impl Keys {
    fn known(&self, hash: &[u8; 32]) -> Option<ApiKeyId> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(hash)
            .copied()
    }

    fn forget(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    fn learn(&self, hash: [u8; 32], id: ApiKeyId) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(hash, id);
    }
}
