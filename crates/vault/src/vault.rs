//! The vault: seals and opens, and derives keys that outlive a master key.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use outlast_protocol::{
    id::{ResourceId, VaultId},
    seam::{Clock, Entropy},
};
use outlast_reach::Dialer;
use outlast_scrub::Scrubber;
use outlast_store::{SealedSecret, Secrets};
use tokio::{sync::Notify, time::Instant};
use tokio_util::task::TaskTracker;
use zeroize::Zeroizing;

use crate::{
    Content, Keyring, Opening, Placed, Records, Registry, Sealing, Token,
    derive::{Key, derive},
    outside::Outside,
    refresh::Flights,
    seal::{self, Place},
    shelf::Shelf,
    sweeper::Lender,
};

/// How long values are kept for the next one that asks.
const KEPT: Duration = Duration::from_secs(60);

/// How long what finds them is: it takes longer to make.
const SWEEPERS_KEPT: Duration = Duration::from_secs(600);

/// What a vault is made of.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Where sealed secrets lie, and what they are of.
    pub records: Records,
    /// Whether no other process uses that store.
    pub alone: bool,
    /// Has the master keys.
    pub ring: Arc<dyn Keyring>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Draws keys.
    pub entropy: Arc<dyn Entropy>,
    /// Connects to token endpoints and MCP servers.
    pub dialer: Dialer,
    /// Certificates in DER of authorities that vouch for those, beside the system's.
    pub authorities: Vec<Vec<u8>>,
    /// Whether whoever asks is not believed: a secret that is kept through a change goes to no other
    /// host than before.
    pub wary: bool,
}

/// Seals and opens secrets, and lends them to those that forward requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Vault(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Secrets>,
    pub(crate) registry: Arc<dyn Registry>,
    pub(crate) alone: bool,
    pub(crate) wary: bool,
    pub(crate) ring: Arc<dyn Keyring>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) outside: Outside,
    /// What keys are derived from.
    root: OnceLock<Root>,
    /// Why secrets cannot be read, as it was last found.
    trouble: Mutex<Option<String>>,
    /// Told when a master key was missed.
    pub(crate) missed: Notify,
    /// Held by whoever brings records under another master key.
    pub(crate) turning: tokio::sync::Mutex<()>,
    /// When this process last turned to another master key.
    pub(crate) turned_at: Mutex<Option<Instant>>,
    pub(crate) shelf: Shelf<VaultId, Arc<[Placed]>>,
    pub(crate) tokens: Shelf<ResourceId, Arc<[Token]>>,
    pub(crate) sweepers: Shelf<Lender, Scrubber>,
    pub(crate) flights: Flights,
    /// Refreshes go on if nobody waits for them: what a token endpoint gave is given once.
    pub(crate) tasks: TaskTracker,
}

/// A random key, sealed like any secret: what is derived from it stays when the master key changes.
struct Root(Key);

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Root(..)")
    }
}

impl Vault {
    /// Makes a vault. It derives nothing before it is [unlocked](Self::unlock).
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Inner {
            store: parts.records.secrets,
            registry: parts.records.registry,
            alone: parts.alone,
            wary: parts.wary,
            ring: parts.ring,
            clock: parts.clock,
            entropy: parts.entropy,
            outside: Outside::new(parts.dialer, parts.authorities),
            root: OnceLock::new(),
            trouble: Mutex::new(Some("it was not unlocked yet".to_owned())),
            missed: Notify::new(),
            turning: tokio::sync::Mutex::new(()),
            turned_at: Mutex::new(None),
            shelf: Shelf::keeping(KEPT),
            tokens: Shelf::keeping(KEPT),
            sweepers: Shelf::keeping(SWEEPERS_KEPT),
            flights: Flights::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Seals what an owner holds, at that revision.
    ///
    /// # Errors
    ///
    /// If there is no master key, or another one than that of what is sealed already.
    pub fn seal(
        &self,
        owner: &str,
        parent: &str,
        revision: u64,
        content: &Content,
    ) -> Result<SealedSecret, Sealing> {
        if let Some(trouble) = self.trouble() {
            return Err(Sealing::Locked(trouble));
        }
        self.0.seal(owner, parent, revision, &content.bytes())
    }

    /// Opens what was sealed for this owner, parent and revision.
    ///
    /// # Errors
    ///
    /// If there is no master key or not the one it is under, or if it is not what was sealed there.
    pub fn open(&self, sealed: &SealedSecret) -> Result<Content, Opening> {
        let bytes = self.0.open(sealed)?;
        // It is what we sealed; what cannot be read is of a version that knows more.
        serde_json::from_slice(&bytes).map_err(|_| Opening::Newer {
            owner: sealed.owner.clone(),
        })
    }

    /// Derives a key for one purpose and context, the same at all times and on all nodes of a store;
    /// `None` while the vault is not unlocked.
    pub fn derive(&self, purpose: &str, context: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
        let Root(root) = self.0.root.get()?;
        Some(derive(root, purpose, context))
    }

    /// Returns why secrets cannot be read, if they cannot: words for an operator, that say what to do.
    pub fn trouble(&self) -> Option<String> {
        self.0.trouble().clone()
    }

    /// Waits until refreshes that are on their way are written down.
    pub async fn close(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

impl Inner {
    pub(crate) fn seal(
        &self,
        owner: &str,
        parent: &str,
        revision: u64,
        plain: &[u8],
    ) -> Result<SealedSecret, Sealing> {
        let place = Place {
            owner,
            parent,
            revision,
        };
        seal::seal(&*self.ring, &*self.entropy, place, plain)
    }

    /// Opens it, and has the master keys looked for again where one is missed.
    pub(crate) fn open(&self, sealed: &SealedSecret) -> Result<Zeroizing<Vec<u8>>, Opening> {
        let opened = seal::open(&*self.ring, sealed);
        if opened.as_ref().is_err_and(Opening::is_of_master_key) {
            self.missed.notify_one();
        }
        opened
    }

    /// Takes a root; the first one stays.
    pub(crate) fn take_root(&self, sealed: &SealedSecret) -> Result<(), Opening> {
        let bytes = self.open(sealed)?;
        let mut root = Key::default();
        if bytes.len() != root.len() {
            return Err(Opening::Newer {
                owner: sealed.owner.clone(),
            });
        }
        root.copy_from_slice(&bytes);
        self.root.get_or_init(|| Root(root));
        Ok(())
    }

    pub(crate) fn trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
