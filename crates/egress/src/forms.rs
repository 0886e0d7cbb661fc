//! Forms that a secret takes on its way through programs.

use outlast_scrub::{
    SHORTEST,
    forms::{self, Form, pair},
};
use zeroize::Zeroizing;

/// Returns the forms of a secret that are looked for: those of results, and as it stands percent-encoded
/// and within JSON, for nothing is decoded here. None of a secret that is too short.
pub(crate) fn of(secret: &[u8]) -> Vec<Form> {
    if secret.len() < SHORTEST {
        return Vec::new();
    }
    let mut all = forms::of(secret);
    for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
        all.push(percent(secret, digits));
        all.push(encoded(secret, digits, b"-._~/"));
        all.push(units(secret, digits));
    }
    let json = json(secret);
    all.push(slashed(&json));
    all.push(json);
    forms::once(&mut all);
    all
}

/// Encodes a secret as it stands in a URL or a form.
pub(crate) fn percent(secret: &[u8], digits: &[u8; 16]) -> Form {
    encoded(secret, digits, b"-._~")
}

/// Encodes all but letters, numbers and some others; in paths slashes are such.
fn encoded(secret: &[u8], digits: &[u8; 16], others: &[u8]) -> Form {
    let mut out = Zeroizing::new(Vec::with_capacity(secret.len() * 3));
    for byte in secret {
        if byte.is_ascii_alphanumeric() || others.contains(byte) {
            out.push(*byte);
        } else {
            out.push(b'%');
            out.extend(pair(*byte, digits));
        }
    }
    out
}

/// Encodes a secret as it stands within a string of JSON.
pub(crate) fn json(secret: &[u8]) -> Form {
    let text = String::from_utf8_lossy(secret);
    let quoted = serde_json::to_string(&text).map(Zeroizing::new);
    let quoted = quoted.unwrap_or_default();
    let inner = quoted
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    Zeroizing::new(inner.unwrap_or_default().as_bytes().to_vec())
}

/// Encodes a secret as it stands within JSON that is safe within HTML: what means something there, and what
/// is no ASCII, as `\u` and four digits.
fn units(secret: &[u8], digits: &[u8; 16]) -> Form {
    let text = Zeroizing::new(String::from_utf8_lossy(secret).into_owned());
    let mut out = Zeroizing::new(Vec::with_capacity(secret.len() * 6));
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(b'\\') => out.extend(b"\\\\"),
            Ok(byte @ b' '..=b'~') if !b"\"&'+<>`".contains(&byte) => out.push(byte),
            Ok(_) | Err(_) => {
                out.extend(b"\\u");
                out.extend(
                    unit.to_be_bytes()
                        .iter()
                        .flat_map(|byte| pair(*byte, digits)),
                );
            }
        }
    }
    out
}

/// Adds the backslashes that some put before slashes within JSON.
fn slashed(json: &[u8]) -> Form {
    let mut out = Zeroizing::new(Vec::with_capacity(json.len() * 2));
    for byte in json {
        out.extend((*byte == b'/').then_some(b'\\'));
        out.push(*byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use base64::{
        Engine as _,
        engine::general_purpose::{STANDARD, URL_SAFE},
    };
    use proptest::prelude::*;

    use super::*;

    fn has(text: &[u8], secret: &[u8]) -> bool {
        let forms = of(secret);
        let found = |form: &Form| text.windows(form.len()).any(|part| part == &***form);
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
        assert!(has(br#"{"key":"a\"b\/c+d e\\f=g~h"}"#, secret));
        assert!(has(br#"{"key":"a\u0022b/c\u002Bd e\\f=g~h"}"#, secret));
        assert!(has(b"/of/a%22b/c%2Bd%20e%5Cf%3Dg~h", secret));
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
