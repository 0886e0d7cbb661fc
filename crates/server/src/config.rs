//! What an operator may set: one struct per concern, each with its defaults.
//!
//! Layers, the later over the earlier: the defaults, one file, the environment, flags. Every key is
//! described in `outlast.default.toml`, and a test holds that file against the structs here.

mod audit;
mod blobs;
mod choice;
mod database;
mod egress;
mod environment;
mod files;
mod hand_packages;
mod hands;
mod kernel;
mod load;
mod log;
pub mod models;
mod prices;
mod print;
mod retries;
mod roles;
mod run;
mod server;
mod sessions;
mod upstream;
mod vault;

use serde::{Deserialize, Serialize};

pub use audit::Audit;
pub use blobs::Blobs;
pub use database::Database;
pub use egress::Egress;
pub use environment::Environment;
pub use files::Files;
pub use hand_packages::HandPackages;
pub use hands::Hands;
pub use kernel::Kernel;
pub use load::{Error, Flags, Loaded, load};
pub use log::{Format, Log};
pub use models::Models;
pub use prices::Prices;
pub use print::print;
pub use retries::Retries;
pub use roles::Roles;
pub use run::Run;
pub use server::Server;
pub use sessions::Sessions;
pub use upstream::{Auth, Fallback, Upstream};
pub use vault::Vault;

/// Every default with its description, as a file.
pub const DEFAULTS: &str = include_str!("config/outlast.default.toml");

/// Everything that an operator may set.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Config {
    /// The server itself.
    pub server: Server,
    /// The model behind the Messages API.
    pub upstream: Upstream,
    /// What is known about models.
    pub models: Models,
    /// The sandboxes.
    pub hands: Hands,
    /// What sandboxes may connect to.
    pub egress: Egress,
    /// Files of clients and agents.
    pub files: Files,
    /// Where large bodies, files and checkpoints are kept.
    pub blobs: Blobs,
    /// Where sessions are kept.
    pub database: Database,
    /// Who did what, and for how long that is known.
    pub audit: Audit,
    /// Where the keys that secrets are sealed under come from.
    pub vault: Vault,
    /// The kernel's bounds.
    pub kernel: Kernel,
    /// What holds for new sessions.
    pub sessions: Sessions,
    /// How failures of the model are retried.
    pub retries: Retries,
    /// What is logged.
    pub log: Log,
    /// List prices beside those of models.
    pub prices: Prices,
    /// What `outlast run` does when it is not told.
    pub run: Run,
}

/// A value that cannot be.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{key}`: {reason}")]
pub struct Impossible {
    /// The key, with its section.
    pub key: &'static str,
    /// What is wrong with it, and what is allowed.
    pub reason: String,
}

impl Impossible {
    fn new(key: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { key, reason }
    }
}

/// Refuses a number outside its bounds.
fn within<T: PartialOrd + std::fmt::Display>(
    key: &'static str,
    value: T,
    bounds: std::ops::RangeInclusive<T>,
) -> Result<(), Impossible> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let (low, high) = (bounds.start(), bounds.end());
    Err(Impossible::new(
        key,
        format!("must lie between {low} and {high}, not {value}"),
    ))
}

impl Config {
    /// Looks for values that cannot be, beyond what their types say.
    ///
    /// # Errors
    ///
    /// The first one.
    pub fn check(&self) -> Result<(), Impossible> {
        self.server.check()?;
        self.upstream.check()?;
        self.hands.check()?;
        self.egress.check()?;
        self.files.check()?;
        self.blobs.check()?;
        self.database.check()?;
        self.audit.check()?;
        self.vault.check()?;
        self.kernel.check()?;
        self.sessions.check()?;
        self.retries.check()?;
        self.log.check()?;
        self.prices.check()?;
        self.run.check()?;
        self.roles().map(drop)
    }
}

#[cfg(test)]
mod tests;
