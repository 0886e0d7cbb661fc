//! A text that must not be seen.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use zeroize::Zeroizing;

/// A text that must not be seen: wiped when it goes, and neither printed nor serialized by accident.
///
/// It has no `Display` and no `Serialize`, and its `Debug` shows nothing of it, not even how long it is.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Returns the text. Whoever calls this answers for where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
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
    fn nothing_of_it_is_printed() {
        let secret: Secret = serde_json::from_str("\"hunter2\\n\"").unwrap();
        assert_eq!(secret.expose(), "hunter2\n");
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(format!("{:#?}", Some(&secret)), "Some(\n    Secret(..),\n)");
    }

    #[test]
    fn what_is_no_text_is_refused_without_being_repeated() {
        let error = serde_json::from_str::<Secret>("[\"hunter2\"]").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
