//! The forms of one secret that are looked for as they stand.

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

/// A form of a secret: as secret as that.
pub type Form = Zeroizing<Vec<u8>>;

/// Returns them, each once: the secret itself, in hex, and in Base64 at every alignment, in both alphabets.
pub fn of(secret: &[u8]) -> Vec<Form> {
    let mut forms = vec![Zeroizing::new(secret.to_vec())];
    forms.push(hex(secret, b"0123456789abcdef"));
    forms.push(hex(secret, b"0123456789ABCDEF"));
    for before in 0..3 {
        forms.push(base64(secret, before, &STANDARD_NO_PAD));
        forms.push(base64(secret, before, &URL_SAFE_NO_PAD));
    }
    once(&mut forms);
    forms
}

/// Leaves one of those that are the same.
pub fn once(forms: &mut Vec<Form>) {
    forms.sort_by(|one, other| one.as_slice().cmp(other));
    forms.dedup();
}

/// Returns the two digits of a byte.
pub fn pair(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    let digit = |at: u8| digits.get(usize::from(at)).copied().unwrap_or_default();
    [digit(byte >> 4), digit(byte & 15)]
}

fn hex(secret: &[u8], digits: &[u8; 16]) -> Form {
    Zeroizing::new(secret.iter().flat_map(|byte| pair(*byte, digits)).collect())
}

/// Returns the digits that are the same whatever stands around the secret, where `before` bytes of the
/// group of three that it begins in are others'.
fn base64(secret: &[u8], before: usize, engine: &impl base64::Engine) -> Form {
    let mut padded = Zeroizing::new(vec![0; before]);
    padded.extend_from_slice(secret);
    let encoded = Zeroizing::new(engine.encode(&*padded));
    // A digit has six bits: those with a bit of another byte are not the secret's alone.
    let own = (before * 8).div_ceil(6)..padded.len() * 8 / 6;
    let own = encoded.as_bytes().get(own).unwrap_or_default();
    Zeroizing::new(own.to_vec())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    #[test]
    fn base64_is_found_at_every_alignment() {
        let secret = b"a secret of 24 bytes: ok";
        let forms = of(secret);
        for (before, after) in [
            ("", ""),
            ("x", "y"),
            ("xy", ""),
            ("xyz", "abc"),
            ("ab?", "~~~~"),
        ] {
            let whole = [before.as_bytes(), secret, after.as_bytes()].concat();
            for text in [
                STANDARD_NO_PAD.encode(&whole),
                URL_SAFE_NO_PAD.encode(&whole),
            ] {
                let text = text.as_bytes();
                let is_in = |form: &Form| text.windows(form.len()).any(|part| part == &form[..]);
                assert!(forms.iter().any(is_in), "{before:?} {after:?}");
            }
        }
    }
}
