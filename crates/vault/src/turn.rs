//! Brings records from one master key under another while both are in use.
//!
//! A turn is no procedure that can be left half-way but a state: as long as more than one key is known,
//! what is under another than the first is brought under the first, by whoever has the store open.

use std::{collections::BTreeMap, sync::PoisonError};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{KeyName, NoMasterKey, Opening, Vault, seal, vault::Inner};

/// Records that are read at once.
const PAGE: usize = 256;

/// What came of a turn.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Turned {
    /// The master key that new records go under.
    pub current: KeyName,
    /// The others that are known.
    pub others: Vec<KeyName>,
    /// How many records were brought under the first.
    pub brought: usize,
    /// How many stay under another, because they cannot be opened.
    pub left: usize,
}

/// Why nothing was turned.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotTurned {
    /// There is no master key to turn from.
    #[error(transparent)]
    NoMasterKey(#[from] NoMasterKey),
    /// There is no other key to turn to, and making one is the operator's.
    #[error(
        "there is only the master key `{0}`, and this server does not make keys for where it comes \
         from: put a new one in front of it, keep the old one behind it, and try again (a server with \
         OUTLAST_MASTER_KEY has to be started again; with several servers, give the new key to all, \
         behind the old one, before any has it in front)"
    )]
    Single(KeyName),
    /// No secret can be opened, so the right key is missing: another new one would only hide that.
    #[error("the right master key is missing: {0}")]
    Missing(String),
    /// The store cannot be read or written.
    #[error("the store failed: {0}")]
    Store(String),
}

/// Which master keys there are, and how many records are under each.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Holding {
    /// The keys that are known, the current one first.
    pub known: Vec<KeyName>,
    /// Records by the key that they are under, those of keys that are not known too.
    pub records: BTreeMap<KeyName, usize>,
}

/// What a pass over all records did.
pub(crate) struct Count {
    pub(crate) brought: usize,
    pub(crate) left: usize,
}

impl Vault {
    /// Makes a new master key, or takes the one that the operator put in front, and brings all records
    /// under it. While this lasts, and for a while after, the old one is known too.
    ///
    /// # Errors
    ///
    /// If there is none to turn to, or the store fails; then it goes on by itself.
    pub async fn turn(&self) -> Result<Turned, NotTurned> {
        {
            let _turning = self.0.turning.lock().await;
            self.0.ring.renew().await?;
            self.unlock().await;
            if let Some(trouble) = self.trouble() {
                return Err(NotTurned::Missing(trouble));
            }
            self.0.next_key().await?;
            let now = Some(Instant::now());
            *self
                .0
                .turned_at
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = now;
        }
        let count = self.bring_all().await.map_err(NotTurned::Store)?;
        // What is just being sealed under the old key is looked for later.
        self.0.missed.notify_one();
        let mut others = self.0.ring.names()?;
        let current = others.remove(0);
        Ok(Turned {
            current,
            others,
            brought: count.brought,
            left: count.left,
        })
    }

    /// Says which master keys there are, and how many records are under each.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub async fn holding(&self) -> Result<Holding, String> {
        let mut holding = Holding {
            known: self.0.ring.names().unwrap_or_default(),
            records: BTreeMap::new(),
        };
        let mut after: Option<String> = None;
        loop {
            let page = self.0.store.secrets(after.as_deref(), PAGE).await;
            let page = page.map_err(|error| error.to_string())?;
            for secret in &page {
                *holding
                    .records
                    .entry(secret.master.as_str().into())
                    .or_default() += 1;
            }
            match page.into_iter().next_back() {
                Some(last) => after = Some(last.owner),
                None => return Ok(holding),
            }
        }
    }

    /// Brings every record under the first master key.
    pub(crate) async fn bring_all(&self) -> Result<Count, String> {
        let _turning = self.0.turning.lock().await;
        let mut count = Count {
            brought: 0,
            left: 0,
        };
        let mut after: Option<String> = None;
        loop {
            let page = self.0.store.secrets(after.as_deref(), PAGE).await;
            let page = page.map_err(|error| error.to_string())?;
            for secret in &page {
                match self.0.bring(secret).await? {
                    Brought::Already => {}
                    Brought::Now => count.brought += 1,
                    Brought::Not => count.left += 1,
                }
            }
            match page.into_iter().next_back() {
                Some(last) => after = Some(last.owner),
                None => return Ok(count),
            }
        }
    }
}

enum Brought {
    Already,
    Now,
    Not,
}

impl Inner {
    /// Sees to it that there is another key than the one that records are under. Which keys there are was
    /// just looked for.
    async fn next_key(&self) -> Result<(), NotTurned> {
        match self.ring.names()?.as_slice() {
            [only] if !(self.alone && self.ring.turn().await?) => {
                Err(NotTurned::Single(only.clone()))
            }
            // One turn after the other: what the last one began goes on.
            _ => Ok(()),
        }
    }

    /// Brings one record under the first key.
    async fn bring(&self, secret: &outlast_store::SealedSecret) -> Result<Brought, String> {
        let first = self.ring.names().map_err(|error| error.to_string())?;
        if first
            .first()
            .is_some_and(|first| first.to_string() == secret.master)
        {
            return Ok(Brought::Already);
        }
        let wrapped = match seal::rewrap(&*self.ring, secret) {
            Ok(wrapped) => wrapped,
            Err(error @ Opening::NoMasterKey { .. }) => return Err(error.to_string()),
            Err(error) => {
                tracing::warn!("a record stays under its master key: {error}");
                return Ok(Brought::Not);
            }
        };
        let written = self.store.rewrap_secret(&secret.master, wrapped).await;
        match written.map_err(|error| error.to_string())? {
            true => Ok(Brought::Now),
            // It was changed meanwhile, and so is under the key that was first then; or it is gone.
            false => Ok(Brought::Not),
        }
    }
}
