//! Where large bodies, files and checkpoints are kept.

use outlast_blobs::{S3, s3};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::{Impossible, print};

/// Where large bodies, files and checkpoints are kept: the data directory, or a bucket.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Blobs {
    /// The bucket and a prefix in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Where the service is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The id of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key_id: Option<String>,
    /// The key.
    #[serde(
        serialize_with = "print::secret",
        skip_serializing_if = "Option::is_none"
    )]
    pub secret_access_key: Option<SecretString>,
    /// What goes with a temporary key.
    #[serde(
        serialize_with = "print::secret",
        skip_serializing_if = "Option::is_none"
    )]
    pub session_token: Option<SecretString>,
}

impl Blobs {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        self.bucket().map(drop)
    }

    /// Returns the bucket, if one is set.
    ///
    /// # Errors
    ///
    /// If it cannot be as it is set.
    pub fn bucket(&self) -> Result<Option<S3>, Impossible> {
        let Some(url) = self.url.clone() else {
            let extra = self.endpoint.is_some() || self.access_key_id.is_some();
            return if extra {
                let reason = "is not set, and the rest of the section says how to reach it";
                Err(Impossible::new("blobs.url", reason))
            } else {
                Ok(None)
            };
        };
        let options = s3::Options {
            url,
            endpoint: self.endpoint.clone(),
            region: self.region.clone(),
            access_key_id: self.access_key_id.clone(),
            secret_access_key: self.secret_access_key.clone(),
            session_token: self.session_token.clone(),
        };
        let made = S3::new(&options);
        made.map(Some)
            .map_err(|error| Impossible::new("blobs", error.to_string()))
    }
}
