//! The vault: seals and opens, and derives keys that outlive a master key.

use std::sync::{Arc, OnceLock};

use outlast_protocol::seam::Entropy;
use zeroize::Zeroizing;

use crate::{
    Content, Keyring, Opening, Place, Sealed, Sealing,
    derive::{Key, derive},
    seal,
};

/// Where the root lies: the key that others are derived from.
const ROOT: Place<'static> = Place {
    owner: "root",
    parent: "root",
    revision: 1,
};

/// Seals and opens secrets. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Vault(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ring: Arc<dyn Keyring>,
    entropy: Arc<dyn Entropy>,
    root: OnceLock<Root>,
}

/// A random key, sealed like any secret: what is derived from it stays when the master key changes.
struct Root(Key);

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Root(..)")
    }
}

impl Vault {
    /// Makes a vault that derives nothing before it has its [root](Self::take_root).
    pub fn new(ring: Arc<dyn Keyring>, entropy: Arc<dyn Entropy>) -> Self {
        Self(Arc::new(Inner {
            ring,
            entropy,
            root: OnceLock::new(),
        }))
    }

    /// Returns who has the master keys.
    pub fn keyring(&self) -> &dyn Keyring {
        &*self.0.ring
    }

    /// Seals what a credential holds.
    ///
    /// # Errors
    ///
    /// If there is no master key.
    pub fn seal(&self, place: Place<'_>, content: &Content) -> Result<Sealed, Sealing> {
        seal::seal(&*self.0.ring, &*self.0.entropy, place, &content.bytes())
    }

    /// Opens what was sealed at this place.
    ///
    /// # Errors
    ///
    /// If there is no master key or not the one it is under, or if it is not what was sealed there.
    pub fn open(&self, place: Place<'_>, sealed: &Sealed) -> Result<Content, Opening> {
        let bytes = seal::open(&*self.0.ring, place, sealed)?;
        // It is what we sealed; what cannot be read is of a version that knows more.
        serde_json::from_slice(&bytes).map_err(|_| Opening::Newer {
            owner: place.owner.to_owned(),
        })
    }

    /// Wraps the key of a record under the current master key; what is sealed stays as it is.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn rewrap(&self, place: Place<'_>, sealed: &Sealed) -> Result<Sealed, Opening> {
        seal::rewrap(&*self.0.ring, place, sealed)
    }

    /// Draws a root and seals it, for a store that has none.
    ///
    /// # Errors
    ///
    /// If there is no master key.
    pub fn new_root(&self) -> Result<Sealed, Sealing> {
        let mut root = Key::default();
        self.0.entropy.fill(&mut root[..]);
        seal::seal(&*self.0.ring, &*self.0.entropy, ROOT, &root[..])
    }

    /// Takes the root that a store has; from then on keys are derived.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn take_root(&self, sealed: &Sealed) -> Result<(), Opening> {
        let bytes = seal::open(&*self.0.ring, ROOT, sealed)?;
        let mut root = Key::default();
        if bytes.len() != root.len() {
            return Err(Opening::Newer {
                owner: ROOT.owner.to_owned(),
            });
        }
        root.copy_from_slice(&bytes);
        self.0.root.get_or_init(|| Root(root));
        Ok(())
    }

    /// Derives a key for one purpose and context, the same at all times and on all nodes of a store;
    /// `None` while there is no root.
    pub fn derive(&self, purpose: &str, context: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
        let Root(root) = self.0.root.get()?;
        Some(derive(root, purpose, context))
    }
}

#[cfg(test)]
mod tests;
