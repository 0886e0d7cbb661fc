//! Keys: made, listed, revoked.

use std::time::Duration;

use outlast_protocol::{
    ErrorCode, Micros, Problem,
    audit::{Actor, Entry},
    id::ApiKeyId,
    key::{CreateKey, Key, Scope},
    seam::Entropy,
};
use outlast_store::{ApiKey, KeyPage, KeyQuery, Receipt, Store};
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use crate::{Kernel, audit_alone, auth::hash, error};

/// What a key of ours begins with, so that scanners for leaked secrets can know one.
const PREFIX: &str = "outlast_";

/// Draws a secret of 256 bits.
pub fn draw_secret(entropy: &dyn Entropy) -> SecretString {
    let mut bytes = Zeroizing::new([0; 32]);
    entropy.fill(&mut *bytes);
    // Whole at once: a text that grows leaves copies of itself behind.
    let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + 2 * bytes.len()));
    text.push_str(PREFIX);
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    for byte in bytes.iter() {
        text.extend([digit(byte >> 4), digit(byte & 15)]);
    }
    text.as_str().into()
}

/// A key that is to be made, and its secret, which nobody can read again.
#[derive(Debug)]
pub struct NewKey {
    key: ApiKey,
    secret: SecretString,
}

impl NewKey {
    /// Draws a key; nothing is stored yet.
    pub fn draw(wanted: CreateKey, now: Micros, entropy: &dyn Entropy) -> Self {
        let CreateKey {
            name,
            scope,
            expires_in_seconds,
        } = wanted;
        let secret = draw_secret(entropy);
        let expiry = |seconds: u32| now.after(Duration::from_secs(seconds.into()));
        let key = ApiKey {
            id: ApiKeyId::mint(now, entropy),
            hash: hash(secret.expose_secret()),
            name,
            scope,
            created_at: now,
            expires_at: expires_in_seconds.map(expiry),
            revoked_at: None,
        };
        Self { key, secret }
    }

    /// Returns it as the API shows it.
    pub fn shown(&self) -> Key {
        shown_key(&self.key)
    }

    /// Returns its secret.
    pub fn secret(&self) -> &SecretString {
        &self.secret
    }
}

/// Returns a key as the API shows it.
pub fn shown_key(key: &ApiKey) -> Key {
    Key {
        id: key.id,
        name: key.name.clone(),
        scope: key.scope,
        created_at: key.created_at,
        expires_at: key.expires_at,
        revoked_at: key.revoked_at,
    }
}

impl Kernel {
    /// Makes a key valid.
    ///
    /// # Errors
    ///
    /// If it cannot be stored.
    pub async fn create_key(&self, new: &NewKey, receipt: Option<Receipt>) -> Result<(), Problem> {
        let made = self.0.store.insert_key(new.key.clone(), receipt).await;
        made.map_err(|fault| error::write(&fault))
    }

    /// Lists keys.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub async fn keys(&self, query: &KeyQuery) -> Result<KeyPage, Problem> {
        list_keys_alone(&*self.0.store, query).await
    }

    /// Revokes a key for good: here by the time this returns, at other nodes within a second.
    ///
    /// # Errors
    ///
    /// If there is none of that id, or it cannot be stored.
    pub async fn revoke_key(&self, id: ApiKeyId) -> Result<Key, Problem> {
        let revoked = revoke(&*self.0.store, id, self.now()).await;
        // Also where nobody knows what became of it.
        self.0.keys.forget();
        revoked
    }

    /// Makes a secret the one that this node itself has in a slot, as an admin's; another that had
    /// the slot is valid no more.
    ///
    /// # Errors
    ///
    /// A conflict if that key was revoked: it stays so. Else if it cannot be stored.
    pub async fn admit_key(&self, secret: &str, slot: &str) -> Result<(), Problem> {
        let hash = hash(secret);
        let key = ApiKey {
            id: ApiKeyId::mint(self.now(), self.entropy()),
            hash,
            name: slot.to_owned(),
            scope: Scope::Admin,
            created_at: self.now(),
            expires_at: None,
            revoked_at: None,
        };
        let put = self.0.store.put_key(slot, key).await;
        self.0.keys.forget();
        put.map_err(|fault| error::write(&fault))?;
        let found = self.0.store.find_key(hash).await;
        match found.map_err(|fault| error::read(&fault))? {
            Some(ApiKey {
                id,
                revoked_at: Some(at),
                ..
            }) => {
                let words = format!("the key was revoked as `{id}` at {at}, and stays so");
                Err(Problem::new(ErrorCode::Conflict, words))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Empties a slot of this node, if there is a key in it.
    ///
    /// # Errors
    ///
    /// If that cannot be stored.
    pub async fn withdraw_key(&self, slot: &str) -> Result<(), Problem> {
        let dropped = self.0.store.drop_key(slot).await;
        self.0.keys.forget();
        dropped.map_err(|fault| error::write(&fault))
    }
}

/// Makes a key valid without a server.
///
/// # Errors
///
/// If it cannot be stored.
pub async fn create_key_alone(store: &dyn Store, new: &NewKey) -> Result<(), Problem> {
    let Key {
        id,
        scope,
        created_at,
        ..
    } = new.shown();
    let entry = Entry::new(created_at, Actor::Cli, "keys.create").of(id);
    audit_alone(store, entry.with("scope", scope.word())).await?;
    let made = store.insert_key(new.key.clone(), None).await;
    made.map_err(|fault| error::write(&fault))
}

/// Lists keys without a server.
///
/// # Errors
///
/// If they cannot be read.
pub async fn list_keys_alone(store: &dyn Store, query: &KeyQuery) -> Result<KeyPage, Problem> {
    store.keys(query).await.map_err(|fault| error::read(&fault))
}

/// Revokes a key without a server.
///
/// # Errors
///
/// If there is none of that id, or it cannot be stored.
pub async fn revoke_key_alone(
    store: &dyn Store,
    id: ApiKeyId,
    now: Micros,
) -> Result<Key, Problem> {
    audit_alone(store, Entry::new(now, Actor::Cli, "keys.revoke").of(id)).await?;
    revoke(store, id, now).await
}

async fn revoke(store: &dyn Store, id: ApiKeyId, now: Micros) -> Result<Key, Problem> {
    let revoked = store.revoke_key(id, now).await;
    let revoked = revoked.map_err(|fault| error::write(&fault))?;
    Ok(shown_key(&revoked))
}

#[cfg(test)]
mod tests {
    use outlast_testkit::random::Seeded;

    use super::*;

    #[test]
    fn secrets_differ_are_long_and_are_not_printed() {
        let entropy = Seeded::new(1);
        let (one, other) = (draw_secret(&entropy), draw_secret(&entropy));
        assert_ne!(one.expose_secret(), other.expose_secret());
        assert_eq!(one.expose_secret().len(), PREFIX.len() + 64);
        assert!(one.expose_secret().starts_with("outlast_"));
        assert!(!format!("{one:?}").contains(one.expose_secret()));
    }
}
