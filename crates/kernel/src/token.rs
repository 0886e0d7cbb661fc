//! What a brain outside shows: a token for one lease, worth nothing once the epoch moved.

use std::sync::OnceLock;

use outlast_protocol::{ErrorCode, Problem, id::SessionId};
use outlast_store::ReadError;
use secrecy::SecretString;
use zeroize::Zeroizing;

use crate::{Asker, Kernel, error};

/// What a token begins with, so that scanners for leaked secrets can know one.
const PREFIX: &str = "outlast_brain_";

/// Keeps a token from being anything else that is made under the same key.
const PURPOSE: &[u8] = b"outlast brain token 1\0";

/// The key that tokens are made under.
#[derive(Default)]
pub(crate) struct TokenKey(OnceLock<Zeroizing<[u8; 32]>>);

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey")
    }
}

impl Kernel {
    /// Says under which key tokens are made, so that every node that has it takes them.
    ///
    /// Without it tokens are made under a key that this process draws, and no other takes them.
    /// Returns whether it was in time: before the first token.
    pub fn make_tokens_under(&self, key: Zeroizing<[u8; 32]>) -> bool {
        self.0.token_key.0.set(key).is_ok()
    }

    fn token_key(&self) -> &[u8; 32] {
        let draw = || {
            let mut key = Zeroizing::new([0; 32]);
            self.0.entropy.fill(&mut *key);
            key
        };
        self.0.token_key.0.get_or_init(draw)
    }

    /// Makes the token of a lease. It is kept nowhere.
    pub fn brain_token(&self, asker: Asker) -> SecretString {
        let said = said(asker);
        let mac = self.mac(&said);
        format!("{PREFIX}{said}.{}", mac.to_hex()).into()
    }

    fn mac(&self, said: &str) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(self.token_key());
        hasher.update(PURPOSE).update(said.as_bytes());
        hasher.finalize()
    }

    /// Returns whose token this is; whether its lease still stands is another question.
    ///
    /// # Errors
    ///
    /// The same words for everything that is no token of this server.
    pub fn asker(&self, token: &str) -> Result<Asker, Problem> {
        let refused = || Problem::new(ErrorCode::Authentication, "invalid token of a brain");
        let parts = token
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.rsplit_once('.'));
        let (said, mac) = parts.ok_or_else(refused)?;
        let given = blake3::Hash::from_hex(mac).map_err(|_| refused())?;
        // Hashes are compared in constant time, and each has one spelling.
        if self.mac(said) != given || given.to_hex().as_str() != mac {
            return Err(refused());
        }
        read(said).ok_or_else(refused)
    }

    /// Fails unless a lease stands now.
    ///
    /// # Errors
    ///
    /// A lack of permission once the epoch moved, or if it cannot be read.
    pub async fn holds(&self, asker: Asker) -> Result<(), Problem> {
        let state = match self.0.store.head(asker.session).await {
            Ok(state) => Some(state),
            Err(ReadError::NotFound(_)) => None,
            Err(fault) => return Err(error::read(&fault)),
        };
        let thread = state.as_ref().and_then(|state| state.thread(asker.thread));
        match thread {
            Some(thread) if thread.epoch == asker.epoch && thread.lease.is_some() => Ok(()),
            Some(_) | None => {
                let words = "the lease of this token is over: another brain may be at work";
                Err(Problem::new(ErrorCode::Permission, words))
            }
        }
    }
}

fn said(asker: Asker) -> String {
    let Asker {
        session,
        thread,
        epoch,
    } = asker;
    format!("{session}.{thread}.{epoch}")
}

fn read(said: &str) -> Option<Asker> {
    let mut parts = said.split('.');
    let session = SessionId::parse(parts.next()?)?;
    let thread = parts.next()?.parse().ok()?;
    let epoch = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(Asker {
        session,
        thread,
        epoch,
    })
}
