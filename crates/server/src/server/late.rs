//! Blobs that open once the data directory is ours.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use outlast_blobs::{Away, Blobs, Error, Folder, Key, Reader};

use super::StartError;
use crate::config;

/// A place of blobs that is opened after the store has taken the lock.
///
/// Opening a folder removes what a crash left half written; before the lock is taken that could
/// be another server's work.
#[derive(Debug, Default)]
pub(super) struct Late(OnceLock<Arc<dyn Blobs>>);

impl Late {
    /// Opens the bucket, if one is set, else the folder in the data directory.
    pub(super) async fn open(&self, config: &config::Blobs, dir: &Path) -> Result<(), StartError> {
        let opened: Arc<dyn Blobs> = match config.bucket()? {
            Some(bucket) => {
                answers(&bucket).await?;
                Arc::new(bucket)
            }
            None => {
                let path = dir.join("blobs");
                let folder = path.clone();
                let opened = tokio::task::spawn_blocking(move || Folder::open(folder)).await;
                let opened = opened.map_err(std::io::Error::other).flatten();
                Arc::new(opened.map_err(|error| StartError::Data { path, error })?)
            }
        };
        self.0.get_or_init(|| opened);
        Ok(())
    }

    fn place(&self, key: &Key) -> Result<&dyn Blobs, Error> {
        let reason = Away::other("not open yet");
        let place = self.0.get().ok_or_else(|| Error::Unavailable {
            key: key.clone(),
            reason,
        })?;
        Ok(&**place)
    }
}

/// Finds out now, not at the first checkpoint, that a bucket cannot be reached or a key is wrong.
async fn answers(bucket: &dyn Blobs) -> Result<(), StartError> {
    let Ok(any) = Key::new("sessions") else {
        return Ok(());
    };
    let listed = bucket.list(&any, None, 1).await;
    listed.map(drop).map_err(StartError::Blobs)
}

#[async_trait::async_trait]
impl Blobs for Late {
    async fn put(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        self.place(key)?.put(key, bytes).await
    }

    async fn put_from(&self, key: &Key, content: Reader) -> Result<u64, Error> {
        self.place(key)?.put_from(key, content).await
    }

    async fn open(&self, key: &Key, from: u64) -> Result<Reader, Error> {
        self.place(key)?.open(key, from).await
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        self.place(key)?.get(key).await
    }

    async fn delete(&self, key: &Key) -> Result<(), Error> {
        self.place(key)?.delete(key).await
    }

    async fn delete_prefix(&self, prefix: &Key, limit: usize) -> Result<usize, Error> {
        self.place(prefix)?.delete_prefix(prefix, limit).await
    }

    async fn list(
        &self,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, Error> {
        self.place(prefix)?.list(prefix, after, limit).await
    }
}
