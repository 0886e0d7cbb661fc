//! The contract of a place for blobs.

use std::{fmt::Debug, pin::Pin};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::AsyncRead;

use crate::{Away, Key, Lack};

/// Bytes on their way; read to their end once.
pub type Reader = Pin<Box<dyn AsyncRead + Send>>;

/// Keeps bytes under keys.
///
/// A key is a blob or a prefix of others, never both: `put` under a key that others lie below, or
/// below one that is a blob, may fail. Futures can be dropped at any point; what they had begun may
/// still happen.
#[async_trait]
pub trait Blobs: Debug + Send + Sync {
    /// Stores `bytes`, durable when it returns.
    ///
    /// What stood there is replaced as a whole: a reader sees the one or the other. Putting the
    /// same again changes nothing. Of two puts at once, either may be the last.
    async fn put(&self, key: &Key, bytes: Bytes) -> Result<(), Error>;

    /// Stores what a reader gives, as [`put`](Self::put) does, without holding it in memory; returns
    /// how many bytes that were.
    ///
    /// # Errors
    ///
    /// Also if the reader fails; nothing is stored then.
    async fn put_from(&self, key: &Key, content: Reader) -> Result<u64, Error>;

    /// Opens what is stored, from byte `from` on, without holding it in memory.
    ///
    /// From the end or behind it there is nothing to read.
    async fn open(&self, key: &Key, from: u64) -> Result<Reader, Error>;

    /// Returns what is stored.
    async fn get(&self, key: &Key) -> Result<Bytes, Error>;

    /// Removes a blob; one that is not there is no error.
    ///
    /// Whether the removal outlives a crash is not promised.
    async fn delete(&self, key: &Key) -> Result<(), Error>;

    /// Removes up to `limit` blobs at or below `prefix`; returns how many went.
    ///
    /// Fewer than `limit` means that none was left. Meant to be called again until then, so that
    /// no single call takes long.
    async fn delete_prefix(&self, prefix: &Key, limit: usize) -> Result<usize, Error>;

    /// Lists up to `limit` keys at or below `prefix` in ascending order, those after `after` only.
    ///
    /// Keys that come or go meanwhile may be listed or not.
    async fn list(
        &self,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, Error>;
}

impl From<Error> for Away {
    fn from(error: Error) -> Self {
        let reason = error.to_string();
        let lack = match error {
            Error::Unavailable { reason, .. } => reason.lack,
            Error::NotFound(_) => Lack::Other,
        };
        Self { lack, reason }
    }
}

/// Why a blob was not stored, read or removed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Nothing is stored under the key.
    #[error("no blob `{0}`")]
    NotFound(Key),
    /// The disk or service is full or fails; nothing can be said about what is stored there.
    #[error("blob `{key}`: {reason}")]
    Unavailable {
        /// Which blob or prefix.
        key: Key,
        /// What the disk or service says.
        reason: Away,
    },
}
