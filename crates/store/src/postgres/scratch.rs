//! A database of its own on a server that has others: made for a trial, and dropped after it.

use std::{fmt, sync::Arc};

use outlast_protocol::seam::Entropy;

use super::{
    OpenError,
    connect::{Connection, Connector, Durability},
    fault::Fault,
    url::{Target, named},
};

/// What the names of such databases begin with: nobody else's do.
const NAME: &str = "outlast_scratch_";

/// A database that was not there before.
pub struct Scratch {
    connector: Connector,
    name: String,
    url: String,
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL holds a password.
        f.debug_struct("Scratch")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Scratch {
    /// Makes a database on the server that `url` names; the database in it is only connected to.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or the user may not make databases.
    pub async fn make(url: &str, entropy: Arc<dyn Entropy>) -> Result<Self, OpenError> {
        let mut bytes = [0; 8];
        entropy.fill(&mut bytes);
        let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{NAME}{name}");
        let connector = Connector::new(Target::parse(url)?, entropy);
        let scratch = Self {
            url: named(url, &name),
            connector,
            name,
        };
        // Of nothing but what the server itself came with. A name cannot be a parameter; this one
        // has letters and digits alone.
        let text = format!("CREATE DATABASE {} TEMPLATE template0", scratch.name);
        scratch.connect().await?.batch(&text).await?;
        Ok(scratch)
    }

    /// Returns how the database is reached; a secret, for a password may stand in it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ends up to `most` sessions of the database, whichever; returns how many.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn end_sessions(&self, most: u32) -> Result<usize, OpenError> {
        let text = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                    WHERE datname = $1 AND pid <> pg_backend_pid() ORDER BY random() LIMIT $2";
        let most = i64::from(most);
        let ended = self
            .connect()
            .await?
            .rows(text, &[&self.name, &most])
            .await?;
        Ok(ended.len())
    }

    /// Asks whether the server answers.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub async fn answers(&self) -> Result<(), OpenError> {
        Ok(self.connect().await?.batch("SELECT 1").await?)
    }

    /// Drops the database, whoever uses it.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn remove(&self) -> Result<(), OpenError> {
        let text = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        Ok(self.connect().await?.batch(&text).await?)
    }

    /// Connects to the other database: a server that was killed meanwhile is found again.
    async fn connect(&self) -> Result<Connection, Fault> {
        self.connector.connect(Durability::Synced).await
    }
}
