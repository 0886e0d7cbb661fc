//! Blobs in memory, and as a process reaches them that may die.

mod mortal;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use outlast_blobs::{Away, Blobs, Error, Key, Reader};
use tokio::{io::AsyncReadExt as _, sync::Semaphore};

pub use mortal::Mortal;

/// Keeps blobs for as long as it lives; fails while it is told to.
#[derive(Debug, Default)]
pub struct Memory {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    kept: BTreeMap<Key, Bytes>,
    failing: bool,
    gate: Option<Arc<Semaphore>>,
    listed: usize,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes every call fail, or lets them succeed again.
    pub fn fail(&self, failing: bool) {
        self.lock().failing = failing;
    }

    /// Has streams that are stored from now on be answered only once the gate is closed.
    pub fn hold(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.lock().gate = Some(gate.clone());
        gate
    }

    /// Has streams that are stored from now on be answered at once.
    pub fn hold_no_more(&self) {
        self.lock().gate = None;
    }

    /// Returns how often keys were listed.
    pub fn listed(&self) -> usize {
        self.lock().listed
    }

    /// Returns all keys.
    pub fn keys(&self) -> Vec<Key> {
        self.lock().kept.keys().cloned().collect()
    }

    fn work(&self, key: &Key) -> Result<MutexGuard<'_, Inner>, Error> {
        let inner = self.lock();
        if inner.failing {
            let reason = Away::other("told to fail");
            return Err(Error::Unavailable {
                key: key.clone(),
                reason,
            });
        }
        Ok(inner)
    }
}

#[async_trait]
impl Blobs for Memory {
    async fn put(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        self.work(key)?.kept.insert(key.clone(), bytes);
        Ok(())
    }

    async fn put_from(&self, key: &Key, mut content: Reader) -> Result<u64, Error> {
        let mut bytes = Vec::new();
        let read = content.read_to_end(&mut bytes).await;
        read.map_err(|error| Error::Unavailable {
            key: key.clone(),
            reason: error.into(),
        })?;
        let length = bytes.len() as u64;
        self.put(key, bytes.into()).await?;
        let gate = self.lock().gate.clone();
        if let Some(gate) = gate {
            // It has no permits: this returns when it is closed.
            drop(gate.acquire().await);
        }
        Ok(length)
    }

    async fn open(&self, key: &Key, from: u64) -> Result<Reader, Error> {
        let mut bytes = self.get(key).await?;
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(bytes.len());
        Ok(Box::pin(std::io::Cursor::new(bytes.split_off(from))))
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        let found = self.work(key)?.kept.get(key).cloned();
        found.ok_or_else(|| Error::NotFound(key.clone()))
    }

    async fn delete(&self, key: &Key) -> Result<(), Error> {
        self.work(key)?.kept.remove(key);
        Ok(())
    }

    async fn delete_prefix(&self, prefix: &Key, limit: usize) -> Result<usize, Error> {
        let doomed = self.list(prefix, None, limit).await?;
        let mut inner = self.work(prefix)?;
        doomed.iter().for_each(|key| drop(inner.kept.remove(key)));
        Ok(doomed.len())
    }

    async fn list(
        &self,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, Error> {
        let mut inner = self.work(prefix)?;
        inner.listed += 1;
        let later = inner
            .kept
            .keys()
            .filter(|key| after.is_none_or(|after| *key > after));
        Ok(later
            .filter(|key| key.is_under(prefix))
            .take(limit)
            .cloned()
            .collect())
    }
}
