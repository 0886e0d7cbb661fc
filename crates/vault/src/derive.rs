//! Keys that follow from another key.

use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use zeroize::Zeroizing;

/// A key of 256 bits.
pub(crate) type Key = Zeroizing<[u8; 32]>;

/// Derives a key for one purpose by HKDF with SHA-256; `context` tells those of one purpose apart.
///
/// Whoever has the outcome learns nothing of the key, nor of what any other purpose or context gives.
#[expect(
    clippy::expect_used,
    reason = "one block of the hash is asked for, which is always given"
)]
pub(crate) fn derive(key: &[u8; 32], purpose: &str, context: &[u8]) -> Key {
    let mut derived = Zeroizing::new([0; 32]);
    let length = u64::try_from(purpose.len()).unwrap_or(u64::MAX);
    // The length parts the two, so that no purpose is another one with some context.
    let info: [&[u8]; 4] = [
        b"outlast-1",
        &length.to_be_bytes(),
        purpose.as_bytes(),
        context,
    ];
    let extracted = Salt::new(HKDF_SHA256, b"outlast").extract(key);
    let filled = extracted
        .expand(&info, HKDF_SHA256)
        .and_then(|material| material.fill(&mut *derived));
    filled.expect("HKDF gives one block");
    derived
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_contexts_and_keys_give_different_keys() {
        let made = [
            derive(&[1; 32], "ca", b"one"),
            derive(&[1; 32], "ca", b"other"),
            derive(&[1; 32], "cao", b"ne"),
            derive(&[1; 32], "c", b"aone"),
            derive(&[2; 32], "ca", b"one"),
        ];
        for (at, key) in made.iter().enumerate() {
            assert!(!made[..at].contains(key));
        }
        assert_eq!(made[0], derive(&[1; 32], "ca", b"one"));
    }

    /// What is derived stays what it is: placeholders and keys of living hands follow from it.
    #[test]
    fn what_is_derived_never_changes() {
        let key = derive(&[7; 32], "ca", b"sbx_1");
        let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            digits,
            "ab097c62c25fd471dfe286c970812a424d70ed541a2b7c258c36b5c1e2300630"
        );
    }
}
