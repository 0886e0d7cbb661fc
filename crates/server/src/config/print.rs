//! The configuration as a file, without its secrets.

use secrecy::SecretString;
use serde::Serializer;

use super::Config;

/// What stands in place of a secret.
const REDACTED: &str = "[redacted]";

/// Writes the whole configuration in the form of a file; secrets are left out.
///
/// # Errors
///
/// If a model's facts hold what a file cannot.
pub fn print(config: &Config) -> Result<String, toml::ser::Error> {
    toml::to_string(config)
}

/// Writes that a secret is set.
pub(super) fn secret<S: Serializer>(
    secret: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(_) => serializer.serialize_str(REDACTED),
        None => serializer.serialize_none(),
    }
}
