//! Paths that are any bytes, as text: one text for each path, and one path for each text.

use percent_encoding::{percent_decode_str, percent_encode_byte};

/// Writes a path as text.
///
/// Bytes that are no UTF-8, and those of control characters, stand as `%XX`. So does a `%` that two
/// hexadecimal digits follow, as `%25`, because it would be read as such a byte. All else stands for
/// itself, so that nearly every path is what it was.
pub fn escaped(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        let valid = chunk.valid();
        for (at, sign) in valid.char_indices() {
            let whole = valid.get(at..at + sign.len_utf8()).unwrap_or_default();
            let after = valid.as_bytes().get(at + 1..).unwrap_or_default();
            if sign.is_control() || sign == '%' && are_digits(after) {
                text.extend(whole.bytes().map(percent_encode_byte));
            } else {
                text.push(sign);
            }
        }
        text.extend(chunk.invalid().iter().copied().map(percent_encode_byte));
    }
    text
}

/// Reads what [`escaped`] writes; `None` of a text that it writes for no path.
pub fn unescaped(text: &str) -> Option<Vec<u8>> {
    let path: Vec<u8> = percent_decode_str(text).collect();
    (!path.contains(&0) && escaped(&path) == text).then_some(path)
}

/// Tells whether two hexadecimal digits come first.
fn are_digits(bytes: &[u8]) -> bool {
    matches!(bytes, [one, two, ..] if one.is_ascii_hexdigit() && two.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_must_be_is_written_otherwise() {
        for (path, text) in [
            (&b"plain/two words"[..], "plain/two words"),
            ("\u{e4}\u{1f980}".as_bytes(), "\u{e4}\u{1f980}"),
            (b"100%", "100%"),
            (b"%s %%", "%s %%"),
            (b"a%2Fb", "a%252Fb"),
            (b"a%2fb", "a%252fb"),
            (b"%%41", "%%2541"),
            (b"%4\xff", "%4%FF"),
            (b"\xff\xfe", "%FF%FE"),
            (b"caf\xe9/\xc3", "caf%E9/%C3"),
            (b"line\nbreak\x7f", "line%0Abreak%7F"),
            ("\u{9b}".as_bytes(), "%C2%9B"),
        ] {
            assert_eq!(escaped(path), text);
            assert_eq!(unescaped(text).as_deref(), Some(path), "{text}");
        }
    }

    #[test]
    fn a_text_that_nothing_is_written_as_is_no_path() {
        for text in [
            "%41", "%2F", "%2E%2E", "%ff", "%00", "a\0b", "a\nb", "%C3%A4", "%25", "%25zz",
        ] {
            assert_eq!(unescaped(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_path_comes_back(path in prop::collection::vec(
            prop_oneof![any::<u8>(), Just(b'%'), Just(b'2'), Just(b'\xc3')], 0..24,
        )) {
            let text = escaped(&path);
            prop_assert!(!text.contains(char::is_control));
            prop_assert_eq!(text.split('/').count(), path.split(|b| *b == b'/').count());
            prop_assert_eq!(unescaped(&text), (!path.contains(&0)).then_some(path));
        }

        #[test]
        fn no_two_texts_are_one_path(text in "[%0-9A-Fa-z/\u{e4}\n]{0,12}") {
            if let Some(path) = unescaped(&text) {
                prop_assert_eq!(escaped(&path), text);
            }
        }
    }
}
