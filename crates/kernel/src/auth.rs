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

    /// Makes a secret valid under a name; one that is valid already keeps its id.
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
            .map_err(|fault| error::write(&fault))
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

    fn learn(&self, hash: [u8; 32], id: ApiKeyId) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(hash, id);
    }
}
