//! The server itself.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::{Environment, Impossible, print, within};

/// The server itself.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default)]
pub struct Server {
    /// Which parts of it run in this process.
    pub roles: Vec<String>,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where everything is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<PathBuf>,
    /// The key that clients must send.
    #[serde(
        serialize_with = "print::secret",
        skip_serializing_if = "Option::is_none"
    )]
    pub api_key: Option<SecretString>,
    /// How long a stopping server waits for what runs.
    pub shutdown_seconds: u64,
    /// Connections at once; a stream takes one as long as it is open.
    pub connections: usize,
    /// How long a client may take nothing of what is written to it.
    pub stall_seconds: u64,
    /// Memory for the bodies of all requests together.
    pub body_mib: usize,
    /// Uploads at once.
    pub uploads: usize,
}

impl Default for Server {
    fn default() -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 4747));
        Self {
            roles: super::roles::PARTS.map(str::to_owned).to_vec(),
            listen,
            data_dir: None,
            api_key: None,
            shutdown_seconds: 30,
            connections: 16_384,
            stall_seconds: 60,
            body_mib: 256,
            uploads: 64,
        }
    }
}

impl Server {
    /// The shortest key that an operator may set, in characters.
    const SHORTEST_KEY: usize = 16;

    pub(super) fn check(&self) -> Result<(), Impossible> {
        use secrecy::ExposeSecret as _;
        if let Some(key) = &self.api_key {
            let key = key.expose_secret();
            if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                let reason = "may only have letters, digits and signs of ASCII";
                return Err(Impossible::new("server.api_key", reason));
            }
            if key.len() < Self::SHORTEST_KEY {
                let reason = format!("must have at least {} characters", Self::SHORTEST_KEY);
                return Err(Impossible::new("server.api_key", reason));
            }
        }
        within("server.shutdown_seconds", self.shutdown_seconds, 0..=86_400)?;
        within("server.connections", self.connections, 1..=1_000_000)?;
        within("server.stall_seconds", self.stall_seconds, 1..=86_400)?;
        // One body of the largest size has to fit.
        within("server.body_mib", self.body_mib, 32..=1_048_576)?;
        within("server.uploads", self.uploads, 1..=100_000)
    }

    /// Returns how long a client may take nothing of what is written to it.
    pub fn stall(&self) -> Duration {
        Duration::from_secs(self.stall_seconds)
    }

    /// Returns how long a stopping server waits for what runs.
    pub fn shutdown(&self) -> Duration {
        Duration::from_secs(self.shutdown_seconds)
    }

    /// Returns where everything is kept: as set, else where this user's programs keep data.
    ///
    /// # Errors
    ///
    /// If nothing is set and the environment does not say where the user's home is.
    pub fn data_dir(&self, environment: &Environment) -> Result<PathBuf, Impossible> {
        match &self.data_dir {
            Some(dir) => Ok(dir.clone()),
            None => default_dir(environment),
        }
    }
}

/// Returns where data is kept if nothing is said.
fn default_dir(environment: &Environment) -> Result<PathBuf, Impossible> {
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/outlast"));
    }
    let absolute = |name| {
        environment
            .get(name)
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute())
    };
    let home = || absolute("HOME").map(|home| home.join(".local/share"));
    let data = absolute("XDG_DATA_HOME").or_else(home);
    data.map(|data| data.join("outlast")).ok_or_else(|| {
        let reason = "is not set, and neither XDG_DATA_HOME nor HOME says where data is kept";
        Impossible::new("server.data_dir", reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_must_be_long_and_plain() {
        for (key, good) in [
            ("0123456789abcdef", true),
            ("sk-live_0123456789", true),
            ("0123456789abcde", false),
            ("0123456789 abcdef", false),
            ("0123456789abcdef\n", false),
            ("", false),
        ] {
            let server = Server {
                api_key: Some(key.into()),
                ..Server::default()
            };
            let checked = server.check();
            assert_eq!(checked.is_ok(), good, "{key:?}");
            if let Err(error) = checked {
                assert!(
                    key.is_empty() || !error.to_string().contains(key),
                    "{error}"
                );
            }
        }
    }
}
