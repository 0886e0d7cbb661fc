//! Text that is written once and never shown again.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use zeroize::Zeroizing;

/// A secret: it cannot be printed or serialized, and its memory is overwritten after use.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a text as a secret.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// Returns the text, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl de::Visitor<'_> for Text {
            type Value = Secret;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Secret, E> {
                Ok(text.into())
            }

            fn visit_string<E>(self, text: String) -> Result<Secret, E> {
                Ok(text.into())
            }
        }

        deserializer.deserialize_string(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_nothing_of_itself() {
        let secret = Secret::new("hunter2hunter2".to_owned());
        assert_eq!(
            format!("{secret:?} {:?}", Some(&secret)),
            "[secret] Some([secret])"
        );
        assert_eq!(secret.expose(), "hunter2hunter2");
    }

    #[test]
    fn what_is_no_text_is_refused_without_being_repeated() {
        let error = serde_json::from_str::<Secret>("[\"hunter2\"]").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
        let read: Secret = serde_json::from_str("\"hunter2\\n\"").unwrap();
        assert_eq!(read.expose(), "hunter2\n");
    }
}
