//! The forms of one secret.
//!
//! Written anew and not taken from `scrub`: what that one overlooks has to be found here.

use std::collections::BTreeMap;

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Returns them, each once, with the words for it.
pub(super) fn of(secret: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut forms = vec![("as it is", secret.to_vec())];
    forms.push(("reversed", secret.iter().rev().copied().collect()));
    for upper in [false, true] {
        forms.push(("in hex", each(secret, "", upper)));
        forms.push(("percent-encoded", each(secret, "%", upper)));
        forms.push(("percent-encoded", reserved(secret, upper)));
    }
    for before in 0..3 {
        forms.push(("in base64", base64(secret, before, &STANDARD_NO_PAD)));
        forms.push(("in base64", base64(secret, before, &URL_SAFE_NO_PAD)));
    }
    // Several are the same: which words the first one has is no matter.
    let mut known = BTreeMap::new();
    for (words, form) in forms {
        known.entry(form).or_insert(words);
    }
    known
        .into_iter()
        .map(|(form, words)| (words, form))
        .collect()
}

/// Writes each byte in hex digits behind a mark.
fn each(secret: &[u8], mark: &str, upper: bool) -> Vec<u8> {
    let write = |byte: &u8| match upper {
        true => format!("{mark}{byte:02X}"),
        false => format!("{mark}{byte:02x}"),
    };
    secret.iter().map(write).collect::<String>().into_bytes()
}

/// Percent-encodes what is not unreserved in a URL.
fn reserved(secret: &[u8], upper: bool) -> Vec<u8> {
    let write = |byte: &u8| match *byte {
        byte if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => vec![byte],
        byte => each(&[byte], "%", upper),
    };
    secret.iter().flat_map(write).collect()
}

/// Returns the digits that are the secret's alone where `before` bytes stand in front of it.
fn base64(secret: &[u8], before: usize, engine: &impl base64::Engine) -> Vec<u8> {
    let padded = [&vec![0; before][..], secret].concat();
    let digits = engine.encode(&padded).into_bytes();
    // A digit has six bits; those in which another byte has a part may be any.
    let (first, last) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
    digits.get(first..last).unwrap_or_default().to_vec()
}
