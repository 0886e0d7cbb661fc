//! The forms of one secret that are looked for as they stand.

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Returns them, each once.
pub(super) fn of(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![secret.to_vec(), hex(secret, false), hex(secret, true)];
    for before in 0..3 {
        forms.push(base64(secret, before, &STANDARD_NO_PAD));
        forms.push(base64(secret, before, &URL_SAFE_NO_PAD));
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

fn hex(secret: &[u8], upper: bool) -> Vec<u8> {
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    if upper {
        digits.to_uppercase().into_bytes()
    } else {
        digits.into_bytes()
    }
}

/// Returns the digits that are the same whatever stands around the secret, where `before` bytes of the
/// group of three that it begins in are others'.
fn base64(secret: &[u8], before: usize, engine: &impl base64::Engine) -> Vec<u8> {
    let padded = [&vec![0; before][..], secret].concat();
    let mut digits = engine.encode(&padded).into_bytes();
    // A digit has six bits: those with a bit of another byte are not the secret's alone.
    digits.truncate(padded.len() * 8 / 6);
    digits.split_off((before * 8).div_ceil(6))
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
                let is_in = |form: &Vec<u8>| text.windows(form.len()).any(|part| part == &form[..]);
                assert!(forms.iter().any(is_in), "{before:?} {after:?}");
            }
        }
    }
}
