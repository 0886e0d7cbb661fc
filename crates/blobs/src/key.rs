//! Keys that are safe as paths, as object names and in a log line.

use std::fmt;

/// Bytes of a whole key.
const LENGTH: usize = 512;
/// Bytes of one part; file systems take 255.
const PART: usize = 200;

/// Names a blob, or all blobs below it: parts of `[A-Za-z0-9._-]` joined by `/`.
///
/// No part is empty or begins with a dot, so no key leaves its root or meets a name that a driver
/// keeps for itself.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key(String);

/// A text cannot be a key.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{text}` cannot name a blob")]
pub struct BadKey {
    /// The text, as it was given.
    pub text: String,
}

impl Key {
    /// Checks a text.
    ///
    /// # Errors
    ///
    /// If it is empty, too long, or has a part that is empty, begins with a dot or has other
    /// characters than letters, digits, `.`, `_` and `-`.
    pub fn new(text: impl Into<String>) -> Result<Self, BadKey> {
        let text = text.into();
        let fits = text.len() <= LENGTH && text.split('/').all(is_part);
        if fits {
            Ok(Self(text))
        } else {
            Err(BadKey { text })
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether this key is `prefix` itself or lies below it.
    pub fn is_under(&self, prefix: &Self) -> bool {
        match self.0.strip_prefix(prefix.as_str()) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        }
    }
}

fn is_part(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !part.is_empty() && part.len() <= PART && !part.starts_with('.') && part.bytes().all(plain)
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_cannot_leave_their_root() {
        let long = "a/".repeat(LENGTH);
        let bad = [
            "", "/a", "a/", "a//b", "..", "a/../b", ".tmp/a", "a\0", "ä", "a b", &long,
        ];
        for text in bad {
            assert_eq!(
                Key::new(text),
                Err(BadKey {
                    text: text.to_owned()
                })
            );
        }
        for text in ["a", "sessions/sesn_01abc/00ff", "a.b-c_D/9"] {
            assert_eq!(Key::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn prefixes_end_at_a_part() {
        let key = |text: &str| Key::new(text).unwrap();
        assert!(key("a/b").is_under(&key("a")) && key("a").is_under(&key("a")));
        assert!(!key("ab").is_under(&key("a")) && !key("a").is_under(&key("a/b")));
    }
}
