//! The contract of API keys, in memory.

use async_trait::async_trait;
use outlast_protocol::{Micros, id::ApiKeyId};
use outlast_store::{ApiKey, KeyPage, KeyQuery, Keys, Order, ReadError, Receipt, WriteError};

use super::{Inner, Memory};

/// A key, and whose slot it stands in.
#[derive(Debug)]
pub(super) struct Kept {
    key: ApiKey,
    slot: Option<String>,
}

impl Memory {
    fn slot(&self, slot: &str) -> String {
        format!("{slot}/{}", self.node)
    }
}

impl Inner {
    /// Empties a slot of all but one key; one that was revoked is remembered.
    fn empty(&mut self, slot: &str, but: Option<[u8; 32]>) {
        let goes = |kept: &Kept| kept.slot.as_deref() == Some(slot) && Some(kept.key.hash) != but;
        self.keys
            .retain(|kept| !goes(kept) || kept.key.revoked_at.is_some());
        let left = self.keys.iter_mut().filter(|kept| goes(kept));
        left.for_each(|kept| kept.slot = None);
    }
}

#[async_trait]
impl Keys for Memory {
    async fn insert_key(&self, new: ApiKey, receipt: Option<Receipt>) -> Result<(), WriteError> {
        let mut inner = self.lock();
        if inner.answered(receipt.as_ref()) {
            return Err(WriteError::Answered);
        }
        let same = |kept: &Kept| kept.key.hash == new.hash || kept.key.id == new.id;
        if inner.keys.iter().any(same) {
            let (id, revision) = (new.id.to_string(), 1);
            return Err(WriteError::Moved { id, revision });
        }
        let (key, slot) = (new, None);
        inner.keys.push(Kept { key, slot });
        inner.receipt(receipt);
        Ok(())
    }

    async fn put_key(&self, slot: &str, key: ApiKey) -> Result<(), WriteError> {
        let slot = self.slot(slot);
        let mut inner = self.lock();
        inner.empty(&slot, Some(key.hash));
        let known = inner.keys.iter_mut();
        match known.into_iter().find(|kept| kept.key.hash == key.hash) {
            Some(kept) => {
                kept.key.scope = key.scope;
                kept.key.expires_at = key.expires_at;
                kept.slot = Some(slot);
            }
            None => inner.keys.push(Kept {
                key,
                slot: Some(slot),
            }),
        }
        Ok(())
    }

    async fn drop_key(&self, slot: &str) -> Result<(), WriteError> {
        let slot = self.slot(slot);
        self.lock().empty(&slot, None);
        Ok(())
    }

    async fn revoke_key(&self, id: ApiKeyId, at: Micros) -> Result<ApiKey, WriteError> {
        let mut inner = self.lock();
        let kept = inner.keys.iter_mut().find(|kept| kept.key.id == id);
        let key = &mut kept
            .ok_or_else(|| WriteError::NotFound(id.to_string()))?
            .key;
        key.revoked_at.get_or_insert(at);
        Ok(key.clone())
    }

    async fn find_key(&self, hash: [u8; 32]) -> Result<Option<ApiKey>, ReadError> {
        let inner = self.lock();
        let kept = inner.keys.iter().find(|kept| kept.key.hash == hash);
        Ok(kept.map(|kept| kept.key.clone()))
    }

    async fn keys(&self, query: &KeyQuery) -> Result<KeyPage, ReadError> {
        let inner = self.lock();
        let place = |key: &ApiKey| (key.created_at, key.id);
        let listed = inner.keys.iter().map(|kept| &kept.key).filter(|key| {
            let behind = query.after.is_none_or(|after| match query.order {
                Order::Forwards => place(key) > after,
                Order::Backwards => place(key) < after,
            });
            behind && (query.revoked || key.revoked_at.is_none())
        });
        let mut items: Vec<ApiKey> = listed.cloned().collect();
        items.sort_by_key(place);
        if query.order == Order::Backwards {
            items.reverse();
        }
        let more = items.len() > query.limit;
        items.truncate(query.limit);
        Ok(KeyPage { items, more })
    }
}
