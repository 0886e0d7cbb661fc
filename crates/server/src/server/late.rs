//! Blobs that open once the data directory is ours.

use std::{io, path::Path, sync::OnceLock};

use bytes::Bytes;
use outlast_blobs::{Blobs, Error, Folder, Key, Reader};

/// A folder of blobs that is opened after the store has taken the lock.
///
/// Opening the folder removes what a crash left half written; before the lock is taken that could
/// be another server's work.
#[derive(Debug, Default)]
pub(super) struct Late(OnceLock<Folder>);

impl Late {
    pub(super) fn open(&self, dir: &Path) -> io::Result<()> {
        let folder = Folder::open(dir)?;
        self.0.get_or_init(|| folder);
        Ok(())
    }

    fn folder(&self, key: &Key) -> Result<&Folder, Error> {
        let reason = "not open yet".to_owned();
        self.0.get().ok_or_else(|| Error::Unavailable {
            key: key.clone(),
            reason,
        })
    }
}

#[async_trait::async_trait]
impl Blobs for Late {
    async fn put(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        self.folder(key)?.put(key, bytes).await
    }

    async fn put_from(&self, key: &Key, content: Reader) -> Result<u64, Error> {
        self.folder(key)?.put_from(key, content).await
    }

    async fn open(&self, key: &Key, from: u64) -> Result<Reader, Error> {
        Blobs::open(self.folder(key)?, key, from).await
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        self.folder(key)?.get(key).await
    }

    async fn delete(&self, key: &Key) -> Result<(), Error> {
        self.folder(key)?.delete(key).await
    }

    async fn delete_prefix(&self, prefix: &Key, limit: usize) -> Result<usize, Error> {
        self.folder(prefix)?.delete_prefix(prefix, limit).await
    }

    async fn list(
        &self,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, Error> {
        self.folder(prefix)?.list(prefix, after, limit).await
    }
}
