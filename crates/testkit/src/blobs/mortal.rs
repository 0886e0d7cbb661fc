//! Blobs as a process reaches them that may fail, and die.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use outlast_blobs::{Away, Blobs, Error, Key, Reader};

use crate::faults::Faults;

/// Passes everything on to other blobs but for the calls that are to fail.
#[derive(Debug)]
pub struct Mortal {
    inner: Arc<dyn Blobs>,
    faults: Arc<Faults>,
}

impl Mortal {
    /// Makes blobs that fail with others.
    pub fn under(inner: Arc<dyn Blobs>, faults: Arc<Faults>) -> Self {
        Self { inner, faults }
    }

    async fn pass<T>(
        &self,
        name: &'static str,
        key: &Key,
        doing: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let failure = || Error::Unavailable {
            key: key.clone(),
            reason: Away::other("a fault was injected"),
        };
        self.faults.pass(name, doing, failure).await
    }
}

#[async_trait]
impl Blobs for Mortal {
    async fn put(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        self.pass("put_blob", key, self.inner.put(key, bytes)).await
    }

    async fn put_from(&self, key: &Key, content: Reader) -> Result<u64, Error> {
        let put = self.inner.put_from(key, content);
        self.pass("put_blob_from", key, put).await
    }

    async fn open(&self, key: &Key, from: u64) -> Result<Reader, Error> {
        self.pass("open_blob", key, self.inner.open(key, from))
            .await
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        self.pass("get_blob", key, self.inner.get(key)).await
    }

    async fn delete(&self, key: &Key) -> Result<(), Error> {
        self.pass("delete_blob", key, self.inner.delete(key)).await
    }

    async fn delete_prefix(&self, prefix: &Key, limit: usize) -> Result<usize, Error> {
        let deleted = self.inner.delete_prefix(prefix, limit);
        self.pass("delete_blobs", prefix, deleted).await
    }

    async fn list(
        &self,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, Error> {
        let listed = self.inner.list(prefix, after, limit);
        self.pass("list_blobs", prefix, listed).await
    }
}
