//! Master keys: they wrap the keys of records, and never lie in the database.

mod command;
pub mod conformance;
mod file;
mod master;
mod sources;

use std::fmt::{self, Debug};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use command::TIMEOUT;
pub use file::FILE;
pub use sources::{Source, Sources};

use crate::derive::Key;

/// The name of a master key: a fingerprint that says nothing of the key.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct KeyName(String);

impl From<&str> for KeyName {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A record's key as it lies beside the record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wrapped {
    /// The master key it is under.
    pub master: KeyName,
    /// What only that key can read.
    pub bytes: Vec<u8>,
}

/// There is no master key, or none can be had.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct NoMasterKey {
    /// Why, and what to set.
    pub reason: String,
}

impl NoMasterKey {
    fn new(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { reason }
    }
}

/// Why a record's key stays wrapped.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unwrapping {
    /// There is no master key at all.
    #[error(transparent)]
    NoMasterKey(#[from] NoMasterKey),
    /// It is under a master key that is not here.
    #[error("it is under the master key `{wanted}`, and there is only {}", Listed(.known))]
    Unknown {
        /// The one that it is under.
        wanted: KeyName,
        /// Those that are here, the current one first.
        known: Vec<KeyName>,
    },
    /// It was changed, or it is that of another record.
    #[error("its key was changed, or is that of another record")]
    Tampered,
}

/// Names, parted by commas.
struct Listed<'a>(&'a [KeyName]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}`{name}`")?;
        }
        Ok(())
    }
}

/// Has the master keys.
///
/// Nothing that it gives out says anything of them. It may know several, so that records can be
/// brought from one under another while both are in use.
#[async_trait]
pub trait Keyring: Debug + Send + Sync {
    /// Returns the names of all keys it knows, at least one; new records go under the first.
    fn names(&self) -> Result<Vec<KeyName>, NoMasterKey>;

    /// Wraps a record's key under the first master key; it comes out again at the same `place` only.
    fn wrap(&self, key: &Key, place: &[u8]) -> Result<Wrapped, NoMasterKey>;

    /// Takes a record's key out.
    fn unwrap(&self, wrapped: &Wrapped, place: &[u8]) -> Result<Key, Unwrapping>;

    /// Looks again at where its keys come from; what it knew is kept if nothing can be had there.
    async fn renew(&self) -> Result<(), NoMasterKey>;

    /// Makes the first key where there is none, if making keys is its to do.
    ///
    /// To be called only while nothing is sealed under another key: one that got lost must be missed.
    async fn found(&self) -> Result<(), NoMasterKey>;

    /// Makes a new first key, if making keys is its to do; the others stay known, also to the next
    /// process. False if it is the operator's, and all that could be done is to look again.
    async fn turn(&self) -> Result<bool, NoMasterKey>;

    /// Forgets all keys but the first, if making keys is its to do.
    ///
    /// To be called only once nothing is under the others, or is about to be.
    async fn retire(&self) -> Result<(), NoMasterKey>;
}
