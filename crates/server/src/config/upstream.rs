//! The model behind the Messages API.

use std::time::Duration;

use outlast_model::upstream::{KeyHeader, Options};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::{Impossible, print, within};

/// The hosted API, where nothing else is said.
const HOSTED: &str = "https://api.anthropic.com";

/// The model behind the Messages API. Without key and address there is none.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default)]
pub struct Upstream {
    /// The key it asks for.
    #[serde(
        serialize_with = "print::secret",
        skip_serializing_if = "Option::is_none"
    )]
    pub api_key: Option<SecretString>,
    /// Where `/v1/messages` is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// How the key is sent.
    #[serde(deserialize_with = "super::choice::word")]
    pub auth: Auth,
    /// The `anthropic-version`.
    pub version: String,
    /// Values of `anthropic-beta`.
    pub betas: Vec<String>,
    /// The longest wait for a connection.
    pub connect_seconds: u64,
    /// The longest wait for an answer to begin.
    pub first_byte_seconds: u64,
    /// The longest silence within an answer.
    pub idle_seconds: u64,
    /// The longest answer.
    pub max_answer_mib: u64,
    /// Which fallback filled this in; nothing that an operator sets.
    #[serde(skip)]
    pub fallback: Option<Fallback>,
}

/// How a key is sent.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// As `x-api-key`.
    #[default]
    XApiKey,
    /// As `Authorization: Bearer`.
    Bearer,
}

/// The variables of other tools that stood in for a configuration of our own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fallback {
    /// Their names.
    pub variables: Vec<&'static str>,
}

impl Default for Upstream {
    fn default() -> Self {
        let options = Options::new("");
        Self {
            api_key: None,
            base_url: None,
            auth: Auth::default(),
            version: options.version,
            betas: options.betas,
            connect_seconds: options.connect_timeout.as_secs(),
            first_byte_seconds: options.first_byte_timeout.as_secs(),
            idle_seconds: options.idle_timeout.as_secs(),
            max_answer_mib: options.max_answer_bytes >> 20,
            fallback: None,
        }
    }
}

impl Upstream {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        within("upstream.connect_seconds", self.connect_seconds, 1..=3_600)?;
        within(
            "upstream.first_byte_seconds",
            self.first_byte_seconds,
            1..=86_400,
        )?;
        within("upstream.idle_seconds", self.idle_seconds, 1..=86_400)?;
        within("upstream.max_answer_mib", self.max_answer_mib, 1..=65_536)?;
        match self.options().map(outlast_model::Upstream::new) {
            Some(Err(error)) => Err(Impossible::new("upstream", error.to_string())),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Returns how to reach it; `None` if neither a key nor an address is set.
    pub fn options(&self) -> Option<Options> {
        if self.api_key.is_none() && self.base_url.is_none() {
            return None;
        }
        let base_url = self.base_url.clone().unwrap_or_else(|| HOSTED.to_owned());
        Some(Options {
            key: self.api_key.clone(),
            key_header: match self.auth {
                Auth::XApiKey => KeyHeader::ApiKey,
                Auth::Bearer => KeyHeader::Bearer,
            },
            version: self.version.clone(),
            betas: self.betas.clone(),
            connect_timeout: Duration::from_secs(self.connect_seconds),
            first_byte_timeout: Duration::from_secs(self.first_byte_seconds),
            idle_timeout: Duration::from_secs(self.idle_seconds),
            max_answer_bytes: self.max_answer_mib << 20,
            ..Options::new(base_url)
        })
    }
}
