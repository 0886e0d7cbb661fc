//! What is logged, and how.

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

use super::Impossible;

/// What is logged to standard error.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Log {
    /// How lines look.
    #[serde(deserialize_with = "super::choice::word")]
    pub format: Format,
    /// What is let through: a level, or directives such as `info,outlast_kernel=debug`.
    pub level: String,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Text on a terminal, else JSON.
    #[default]
    Auto,
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: Format::default(),
            level: "info".to_owned(),
        }
    }
}

impl Log {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        self.filter().map(drop)
    }

    /// Returns what is let through.
    ///
    /// # Errors
    ///
    /// If the directives cannot be read.
    pub fn filter(&self) -> Result<EnvFilter, Impossible> {
        // The first logs the path of its own source, where the binary was built; the second every
        // value of every statement.
        let level = format!("rusqlite_migration=warn,tokio_postgres=info,{}", self.level);
        EnvFilter::try_new(level).map_err(|error| {
            let reason = format!("`{}` cannot be read: {error}", self.level);
            Impossible::new("log.level", reason)
        })
    }
}
