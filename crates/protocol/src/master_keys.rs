//! Which master keys a server has, for operators: names, never keys.

use serde::{Deserialize, Serialize};

/// What is said of the master keys of a store.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MasterKeys {
    /// Why secrets cannot be used, and what to do, if so.
    pub trouble: Option<String>,
    /// The keys, the current one first; those that are missing last.
    pub keys: Vec<MasterKey>,
}

/// A master key.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MasterKey {
    /// Its name, which says nothing of the key.
    pub name: String,
    /// Whether new records go under it.
    pub current: bool,
    /// Whether this server has it.
    pub known: bool,
    /// Records that are under it.
    pub records: usize,
}

/// What came of a rotation.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MasterKeyRotation {
    /// The key that records are under now.
    pub current: String,
    /// Those that are known besides, for a while or until the operator takes them away.
    pub others: Vec<String>,
    /// Records that were brought under the current one.
    pub brought: usize,
    /// Records that stay under another, because they cannot be opened or were just changed.
    pub left: usize,
}
