//! Who asks: API keys, known by hash, never by secret.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use outlast_protocol::{ErrorCode, Micros, Problem, id::ApiKeyId, key::Scope};
use outlast_store::{ApiKey, ReadError};

use crate::{Kernel, error};

/// How long what was read of a key is taken for true: at most so long a key lives on here that was
/// revoked elsewhere.
const FRESH: Duration = Duration::from_secs(1);

/// Keys that are remembered before stale ones are thrown out.
const REMEMBERED: usize = 1_024;

/// Whose key a secret is, and what it may do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Identity {
    /// The key.
    pub key: ApiKeyId,
    /// What it may do.
    pub scope: Scope,
}

/// What becomes of a request while the store cannot say anything about its key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WhileAway {
    /// It is refused.
    Refuse,
    /// A key that was good when it was last looked up is good: for what needs no store, and tells
    /// operators why the rest is refused.
    AsLastKnown,
}

/// Keys that were found valid a moment ago, by hash.
#[derive(Debug, Default)]
pub(crate) struct Keys(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// How often all was forgotten: what was read before is not learned after.
    era: u64,
    by_hash: HashMap<[u8; 32], Found>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    identity: Identity,
    expires_at: Option<Micros>,
    /// When it was looked up, by the clock that never jumps.
    looked: Duration,
}

impl Kernel {
    /// Returns whose secret this is.
    ///
    /// The secret is compared as a BLAKE3 hash; what a timing could tell is about the hash alone.
    /// A key that expired is refused from that moment on, one that was revoked here from the answer
    /// on, one that was revoked at another node within a second.
    ///
    /// # Errors
    ///
    /// The same words for a key that is unknown, expired or revoked, so that nobody can ask which.
    pub async fn authenticate(&self, secret: &str, away: WhileAway) -> Result<Identity, Problem> {
        let hash = hash(secret);
        let (now, looked) = (self.now(), self.0.clock.uptime());
        let (era, known) = self.0.keys.look(&hash);
        let fresh = known.filter(|found| looked.saturating_sub(found.looked) < FRESH);
        if let Some(found) = fresh {
            return found.at(now);
        }
        let key = match self.0.store.find_key(hash).await {
            Ok(key) => key.filter(|key| key.revoked_at.is_none()),
            Err(ReadError::Unavailable(_) | ReadError::Overloaded)
                if away == WhileAway::AsLastKnown
                    && let Some(found) = known =>
            {
                return found.at(now);
            }
            Err(fault) => return Err(error::read(&fault)),
        };
        let Some(key) = key else {
            self.0.keys.drop_one(&hash);
            return Err(refused());
        };
        let found = Found::of(&key, looked);
        self.0.keys.learn(era, hash, found);
        found.at(now)
    }
}

/// Returns what a key is known by.
pub(crate) fn hash(secret: &str) -> [u8; 32] {
    blake3::hash(secret.as_bytes()).into()
}

fn refused() -> Problem {
    Problem::new(ErrorCode::Authentication, "invalid API key")
}

impl Found {
    fn of(key: &ApiKey, looked: Duration) -> Self {
        Self {
            identity: Identity {
                key: key.id,
                scope: key.scope,
            },
            expires_at: key.expires_at,
            looked,
        }
    }

    /// Returns whose it is, unless it has expired by then.
    fn at(&self, now: Micros) -> Result<Identity, Problem> {
        if self.expires_at.is_some_and(|end| end <= now) {
            return Err(refused());
        }
        Ok(self.identity)
    }
}

impl Keys {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, hash: &[u8; 32]) -> (u64, Option<Found>) {
        let known = self.lock();
        (known.era, known.by_hash.get(hash).copied())
    }

    /// Forgets all, and what is being looked up too.
    pub(crate) fn forget(&self) {
        let mut known = self.lock();
        known.era += 1;
        known.by_hash.clear();
    }

    fn drop_one(&self, hash: &[u8; 32]) {
        self.lock().by_hash.remove(hash);
    }

    fn learn(&self, era: u64, hash: [u8; 32], found: Found) {
        let mut known = self.lock();
        if known.era != era {
            return;
        }
        if known.by_hash.len() >= REMEMBERED {
            let fresh =
                |_: &[u8; 32], old: &mut Found| found.looked.saturating_sub(old.looked) < FRESH;
            known.by_hash.retain(fresh);
        }
        known.by_hash.insert(hash, found);
    }
}
