//! Where sessions are kept.

use outlast_store::postgres::Postgres;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::{Impossible, print};

/// Where sessions are kept: a file in the data directory, or a Postgres that several nodes share.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Database {
    /// The database; a secret, for a password may stand in it.
    #[serde(
        serialize_with = "print::secret",
        skip_serializing_if = "Option::is_none"
    )]
    pub url: Option<SecretString>,
}

impl Database {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        let Some(url) = self.url() else { return Ok(()) };
        Postgres::check(url).map_err(|error| Impossible::new("database.url", error.to_string()))
    }

    /// Returns where the Postgres is, if there is one.
    pub fn url(&self) -> Option<&str> {
        self.url.as_ref().map(|url| url.expose_secret())
    }
}
