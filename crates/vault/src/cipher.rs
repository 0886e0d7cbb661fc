//! AES-256-GCM as it is used here: what comes out belongs to one place.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use outlast_protocol::seam::Entropy;
use zeroize::Zeroizing;

use crate::derive::Key;

/// Returns the cipher with a key.
#[expect(clippy::expect_used, reason = "the length is the cipher's")]
pub(crate) fn cipher(key: &Key) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, &key[..]);
    LessSafeKey::new(key.expect("the key has the length of the cipher"))
}

/// Encrypts under a nonce that is drawn, which stands before what comes out.
#[expect(
    clippy::expect_used,
    reason = "nothing here is near the cipher's bound of 64 GiB"
)]
pub(crate) fn encrypt(
    key: &LessSafeKey,
    plain: &[u8],
    place: &[u8],
    entropy: &dyn Entropy,
) -> Vec<u8> {
    let mut nonce = [0; NONCE_LEN];
    entropy.fill(&mut nonce);
    // Room for all from the start: what grows leaves plain bytes behind.
    let mut bytes = Vec::with_capacity(plain.len());
    bytes.extend_from_slice(plain);
    let tag = key.seal_in_place_separate_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(place),
        &mut bytes,
    );
    let tag = tag.expect("it is short enough for the cipher");
    [&nonce, &bytes[..], tag.as_ref()].concat()
}

/// Decrypts it; `None` if it was changed, or belongs elsewhere.
pub(crate) fn decrypt(key: &LessSafeKey, bytes: &[u8], place: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
    let mut plain = Zeroizing::new(sealed.to_vec());
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let length = key
        .open_in_place(nonce, Aad::from(place), &mut plain)
        .ok()?
        .len();
    plain.truncate(length);
    Some(plain)
}
