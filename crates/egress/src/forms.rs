//! Forms that a secret takes on its way through programs.

use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use zeroize::Zeroizing;

/// The shortest secret that is looked for: a shorter one would be found in what it is not.
pub(crate) const LEAST: usize = 12;

/// A secret, or a form of it.
pub(crate) type Bytes = Zeroizing<Vec<u8>>;

/// Returns the forms of a secret that are looked for: itself, base64, percent-encoded, hex, within JSON.
///
/// Of base64 there are three in each alphabet, since what stands before it decides how its bits are
/// parted; of those only the digits that are its own alone. None of a secret that is too short.
pub(crate) fn of(secret: &[u8]) -> Vec<Bytes> {
    if secret.len() < LEAST {
        return Vec::new();
    }
    let mut forms = vec![Zeroizing::new(secret.to_vec())];
    for before in 0..3 {
        forms.push(base64(secret, before, &STANDARD));
        forms.push(base64(secret, before, &URL_SAFE));
    }
    for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
        forms.push(percent(secret, digits));
        forms.push(hex(secret, digits));
    }
    forms.push(json(secret));
    forms.sort_by(|one, other| one.as_slice().cmp(other));
    forms.dedup();
    forms
}

/// Encodes a secret behind so many other bytes, and leaves out the digits that are also theirs, or of
/// what follows.
fn base64(secret: &[u8], before: usize, alphabet: &impl base64::Engine) -> Bytes {
    let mut padded = Zeroizing::new(vec![0; before]);
    padded.extend_from_slice(secret);
    let encoded = Zeroizing::new(alphabet.encode(&*padded));
    let (from, to) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
    let own = encoded.as_bytes().get(from..to).unwrap_or_default();
    Zeroizing::new(own.to_vec())
}

/// Encodes a secret as it stands in a URL or a form.
pub(crate) fn percent(secret: &[u8], digits: &[u8; 16]) -> Bytes {
    let mut out = Zeroizing::new(Vec::with_capacity(secret.len() * 3));
    for byte in secret {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(*byte);
        } else {
            out.push(b'%');
            out.extend(pair(*byte, digits));
        }
    }
    out
}

fn hex(secret: &[u8], digits: &[u8; 16]) -> Bytes {
    Zeroizing::new(secret.iter().flat_map(|byte| pair(*byte, digits)).collect())
}

fn pair(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    let digit = |at: u8| digits.get(usize::from(at)).copied().unwrap_or_default();
    [digit(byte >> 4), digit(byte & 15)]
}

/// Encodes a secret as it stands within a string of JSON.
pub(crate) fn json(secret: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(secret);
    let quoted = serde_json::to_string(&text).map(Zeroizing::new);
    let quoted = quoted.unwrap_or_default();
    let inner = quoted
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    Zeroizing::new(inner.unwrap_or_default().as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use proptest::prelude::*;

    use super::*;

    fn has(text: &[u8], secret: &[u8]) -> bool {
        let forms = of(secret);
        let found = |form: &Bytes| text.windows(form.len()).any(|part| part == &***form);
        forms.iter().any(found)
    }

    #[test]
    fn a_short_secret_is_not_looked_for() {
        assert!(of(b"elevenbytes").is_empty());
        assert!(!of(b"twelve bytes").is_empty());
    }

    #[test]
    fn forms_of_quotes_and_slashes_are_found() {
        let secret = br#"a"b/c+d e\f=g~h"#;
        assert!(has(br#"{"key":"a\"b/c+d e\\f=g~h"}"#, secret));
        assert!(has(b"q=a%22b%2Fc%2Bd%20e%5Cf%3Dg~h", secret));
        assert!(has(b"q=a%22b%2fc%2bd%20e%5cf%3dg~h", secret));
    }

    proptest! {
        #[test]
        fn base64_is_found_wherever_it_stands(
            secret in proptest::collection::vec(any::<u8>(), 12..40),
            before in proptest::collection::vec(any::<u8>(), 0..7),
            after in proptest::collection::vec(any::<u8>(), 0..7),
        ) {
            let whole = [&*before, &*secret, &*after].concat();
            prop_assert!(has(STANDARD.encode(&whole).as_bytes(), &secret));
            prop_assert!(has(URL_SAFE.encode(&whole).as_bytes(), &secret));
        }
    }
}
