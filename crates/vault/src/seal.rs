//! Seals bytes at one place: under a key of their own, which a master key wraps.

use outlast_protocol::seam::Entropy;
use zeroize::Zeroizing;

use crate::{
    cipher::{cipher, decrypt, encrypt},
    derive::Key,
    keyring::{KeyName, Keyring, NoMasterKey, Unwrapping, Wrapped},
};

/// The form of what is sealed: its first byte.
const FORM: u8 = 1;

/// Where a record belongs. What was sealed at one place opens at no other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place<'a> {
    /// What it is the secret of: a credential or a resource of a session.
    pub owner: &'a str,
    /// What that goes with: its vault or its session.
    pub parent: &'a str,
    /// From 1, one more with each change.
    pub revision: u64,
}

impl Place<'_> {
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

/// What the vault alone can read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sealed {
    /// The master key that wraps the record's key.
    pub master: KeyName,
    /// The form, the wrapped key with its length, and what that key encrypts.
    pub bytes: Vec<u8>,
}

/// Why nothing was sealed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Sealing {
    /// There is no master key.
    #[error(transparent)]
    NoMasterKey(#[from] NoMasterKey),
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
) -> Result<Sealed, Sealing> {
    let mut key = Key::default();
    entropy.fill(&mut key[..]);
    let bound = place.bytes();
    let wrapped = ring.wrap(&key, &bound)?;
    Ok(join(
        wrapped,
        &encrypt(&cipher(&key), plain, &bound, entropy),
    ))
}

/// Opens what was sealed at that place.
pub(crate) fn open(
    ring: &dyn Keyring,
    place: Place<'_>,
    sealed: &Sealed,
) -> Result<Zeroizing<Vec<u8>>, Opening> {
    let bound = place.bytes();
    let (wrapped, encrypted) = part(place.owner, sealed)?;
    let key = ring.unwrap(&wrapped, &bound);
    let key = key.map_err(|cause| Opening::of(place.owner, cause))?;
    decrypt(&cipher(&key), encrypted, &bound).ok_or_else(|| Opening::Tampered {
        owner: place.owner.to_owned(),
    })
}

/// Wraps the key of a record under the current master key; what is sealed stays as it is.
///
/// # Errors
///
/// As [`open`]; also if there is no current master key.
pub(crate) fn rewrap(
    ring: &dyn Keyring,
    place: Place<'_>,
    sealed: &Sealed,
) -> Result<Sealed, Opening> {
    let bound = place.bytes();
    let (wrapped, encrypted) = part(place.owner, sealed)?;
    let key = ring.unwrap(&wrapped, &bound);
    let key = key.map_err(|cause| Opening::of(place.owner, cause))?;
    let wrapped = ring.wrap(&key, &bound);
    let wrapped = wrapped.map_err(|cause| Opening::of(place.owner, cause.into()))?;
    Ok(join(wrapped, encrypted))
}

fn join(wrapped: Wrapped, encrypted: &[u8]) -> Sealed {
    let length = u16::try_from(wrapped.bytes.len()).unwrap_or(u16::MAX);
    debug_assert_eq!(
        usize::from(length),
        wrapped.bytes.len(),
        "a wrapped key is short"
    );
    Sealed {
        master: wrapped.master,
        bytes: [
            &[FORM],
            &length.to_be_bytes()[..],
            &wrapped.bytes,
            encrypted,
        ]
        .concat(),
    }
}

/// Parts the wrapped key from what it encrypts.
fn part<'a>(owner: &str, sealed: &'a Sealed) -> Result<(Wrapped, &'a [u8]), Opening> {
    let owner = || owner.to_owned();
    let tampered = || Opening::Tampered { owner: owner() };
    let (form, rest) = sealed.bytes.split_first().ok_or_else(tampered)?;
    if *form != FORM {
        return Err(Opening::Newer { owner: owner() });
    }
    let (length, rest) = rest.split_first_chunk().ok_or_else(tampered)?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (wrapped, encrypted) = rest.split_at_checked(length).ok_or_else(tampered)?;
    let wrapped = Wrapped {
        master: sealed.master.clone(),
        bytes: wrapped.to_vec(),
    };
    Ok((wrapped, encrypted))
}
