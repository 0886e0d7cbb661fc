//! Seals bytes at one place: under a key of their own, which a master key wraps.

use outlast_protocol::seam::Entropy;
use outlast_store::SealedSecret;
use zeroize::Zeroizing;

use crate::{
    cipher::{cipher, decrypt, encrypt},
    derive::Key,
    keyring::{Keyring, NoMasterKey, Unwrapping, Wrapped},
};

/// The form of what is sealed: its first byte.
const FORM: u8 = 1;

/// Where a record belongs. What was sealed at one place opens at no other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place<'a> {
    /// What it is the secret of: a credential or a resource of a session.
    pub(crate) owner: &'a str,
    /// What that goes with: its vault or its session.
    pub(crate) parent: &'a str,
    /// From 1, one more with each change.
    pub(crate) revision: u64,
}

impl<'a> Place<'a> {
    fn of(sealed: &'a SealedSecret) -> Self {
        Self {
            owner: &sealed.owner,
            parent: &sealed.parent,
            revision: sealed.revision,
        }
    }

    /// Returns it as the ciphers bind it: lengths keep one text from running into the next.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"outlast-vault".to_vec();
        bytes.push(FORM);
        for text in [self.owner, self.parent] {
            bytes.extend((text.len() as u64).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.extend(self.revision.to_be_bytes());
        bytes
    }
}

/// Why nothing was sealed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Sealing {
    /// There is no master key.
    #[error(transparent)]
    NoMasterKey(#[from] NoMasterKey),
    /// What was sealed before cannot be read, so nothing is sealed under another key beside it.
    #[error("nothing is sealed: {0}")]
    Locked(String),
}

/// Why something stays sealed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Opening {
    /// There is no master key.
    #[error("the secret of `{owner}` cannot be read: {cause}")]
    NoMasterKey {
        /// Whose secret it is.
        owner: String,
        /// Why there is none, and what to set.
        cause: NoMasterKey,
    },
    /// It was sealed under another master key than those that are here.
    #[error("the secret of `{owner}` cannot be read: {cause}; give back the one it is under")]
    WrongMasterKey {
        /// Whose secret it is.
        owner: String,
        /// Which key it is under, and which there are.
        cause: Unwrapping,
    },
    /// It was changed, or it is that of another record or revision.
    #[error(
        "the secret of `{owner}` was changed outside this server, or is another's: it is not used"
    )]
    Tampered {
        /// Whose secret it should be.
        owner: String,
    },
    /// It has a form that a newer version writes.
    #[error(
        "the secret of `{owner}` has a form that this version does not know: a newer one wrote it"
    )]
    Newer {
        /// Whose secret it is.
        owner: String,
    },
}

impl Opening {
    /// Tells whether it is the master key that is missing or wrong.
    pub fn is_of_master_key(&self) -> bool {
        matches!(self, Self::NoMasterKey { .. } | Self::WrongMasterKey { .. })
    }

    fn of(owner: &str, cause: Unwrapping) -> Self {
        let owner = owner.to_owned();
        match cause {
            Unwrapping::NoMasterKey(cause) => Self::NoMasterKey { owner, cause },
            Unwrapping::Unknown { .. } => Self::WrongMasterKey { owner, cause },
            Unwrapping::Tampered => Self::Tampered { owner },
        }
    }
}

/// Seals bytes at a place.
pub(crate) fn seal(
    ring: &dyn Keyring,
    entropy: &dyn Entropy,
    place: Place<'_>,
    plain: &[u8],
) -> Result<SealedSecret, Sealing> {
    let mut key = Key::default();
    entropy.fill(&mut key[..]);
    let bound = place.bytes();
    let wrapped = ring.wrap(&key, &bound)?;
    let encrypted = encrypt(&cipher(&key), plain, &bound, entropy);
    Ok(join(place, wrapped, &encrypted))
}

/// Opens what was sealed at its place.
pub(crate) fn open(
    ring: &dyn Keyring,
    sealed: &SealedSecret,
) -> Result<Zeroizing<Vec<u8>>, Opening> {
    let (key, bound, encrypted) = unwrap(ring, sealed)?;
    decrypt(&cipher(&key), encrypted, &bound).ok_or_else(|| Opening::Tampered {
        owner: sealed.owner.clone(),
    })
}

/// Wraps the key of a record under the current master key; what it encrypts stays as it is.
///
/// # Errors
///
/// As [`open`]; also if there is no current master key.
pub(crate) fn rewrap(ring: &dyn Keyring, sealed: &SealedSecret) -> Result<SealedSecret, Opening> {
    let (key, bound, encrypted) = unwrap(ring, sealed)?;
    let wrapped = ring.wrap(&key, &bound);
    let wrapped = wrapped.map_err(|cause| Opening::of(&sealed.owner, cause.into()))?;
    Ok(join(Place::of(sealed), wrapped, encrypted))
}

/// Takes the key of a record out: with the place that it is bound to, and what it encrypts.
fn unwrap<'a>(
    ring: &dyn Keyring,
    sealed: &'a SealedSecret,
) -> Result<(Key, Vec<u8>, &'a [u8]), Opening> {
    let bound = Place::of(sealed).bytes();
    let (wrapped, encrypted) = part(sealed)?;
    let key = ring.unwrap(&wrapped, &bound);
    let key = key.map_err(|cause| Opening::of(&sealed.owner, cause))?;
    Ok((key, bound, encrypted))
}

/// A sealed secret is its form, the wrapped key with its length, and what that key encrypts.
fn join(place: Place<'_>, wrapped: Wrapped, encrypted: &[u8]) -> SealedSecret {
    let length = u16::try_from(wrapped.bytes.len()).unwrap_or(u16::MAX);
    debug_assert_eq!(
        usize::from(length),
        wrapped.bytes.len(),
        "a wrapped key is short"
    );
    SealedSecret {
        owner: place.owner.to_owned(),
        parent: place.parent.to_owned(),
        revision: place.revision,
        master: wrapped.master.to_string(),
        sealed: [
            &[FORM],
            &length.to_be_bytes()[..],
            &wrapped.bytes,
            encrypted,
        ]
        .concat(),
    }
}

/// Parts the wrapped key from what it encrypts.
fn part(sealed: &SealedSecret) -> Result<(Wrapped, &[u8]), Opening> {
    let owner = || sealed.owner.clone();
    let tampered = || Opening::Tampered { owner: owner() };
    let (form, rest) = sealed.sealed.split_first().ok_or_else(tampered)?;
    if *form != FORM {
        return Err(Opening::Newer { owner: owner() });
    }
    let (length, rest) = rest.split_first_chunk().ok_or_else(tampered)?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (wrapped, encrypted) = rest.split_at_checked(length).ok_or_else(tampered)?;
    let wrapped = Wrapped {
        master: sealed.master.as_str().into(),
        bytes: wrapped.to_vec(),
    };
    Ok((wrapped, encrypted))
}

#[cfg(test)]
mod tests;
