//! Text that is written once and never shown again.

use std::fmt;

use zeroize::Zeroizing;

/// A secret of a request: it cannot be printed or serialized, and its memory is overwritten after use.
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

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
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
}
