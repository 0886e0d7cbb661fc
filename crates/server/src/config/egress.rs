//! What sandboxes may connect to, through the egress of this server.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use outlast_egress::hand::{CONNECT, CONNECTIONS, IDLE, Managers, Options, authorities};
use outlast_reach::{BadOpening, Rule};
use serde::{Deserialize, Serialize};

use super::{Impossible, within};

/// What is open, and bounds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Egress {
    /// Ranges and hosts that are not public and may be connected to all the same.
    pub open: Vec<String>,
    /// Hosts of package registries, in place of the usual ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_registries: Option<Vec<String>>,
    /// A file in PEM of authorities that vouch for hosts to which a credential goes, beside the system's; also
    /// for token endpoints and MCP servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorities: Option<PathBuf>,
    /// Connections that one sandbox may have open at once.
    pub connections: usize,
    /// The longest that resolving and connecting may take together.
    pub connect_seconds: u64,
    /// How long nothing may pass on a connection.
    pub idle_seconds: u64,
    /// The socket where a server and an egress process of another user meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// The user of the process at the other end, by name or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
}

impl Default for Egress {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            package_registries: None,
            authorities: None,
            connections: CONNECTIONS,
            connect_seconds: CONNECT.as_secs(),
            idle_seconds: IDLE.as_secs(),
            socket: None,
            peer: None,
        }
    }
}

impl Egress {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        within("egress.connections", self.connections, 1..=65_536)?;
        within("egress.connect_seconds", self.connect_seconds, 1..=300)?;
        within("egress.idle_seconds", self.idle_seconds, 10..=86_400)?;
        self.rule()?;
        self.managers().map(drop)
    }

    /// Tells whether nothing is set but where the egress is.
    pub(super) fn is_bare(&self) -> bool {
        let others = Self {
            socket: None,
            peer: None,
            ..self.clone()
        };
        others == Self::default()
    }

    fn rule(&self) -> Result<Rule, Impossible> {
        let refused = |error: BadOpening| Impossible::new("egress.open", error.to_string());
        Rule::new(&self.open).map_err(refused)
    }

    fn managers(&self) -> Result<Managers, Impossible> {
        let Some(hosts) = &self.package_registries else {
            return Ok(Managers::default());
        };
        Managers::new(hosts).map_err(|(entry, error)| {
            Impossible::new("egress.package_registries", format!("`{entry}`: {error}"))
        })
    }

    /// Returns what the egress of a server is made with that listens there.
    ///
    /// # Errors
    ///
    /// The first value that cannot be; a file of authorities that cannot be read is one.
    pub fn options(&self, own: SocketAddr) -> Result<Options, Impossible> {
        let mut options = self.options_of_any()?;
        options.rule = options.rule.guarding(own);
        Ok(options)
    }

    /// Returns what the egress of any server is made with.
    ///
    /// # Errors
    ///
    /// As [`options`](Self::options).
    pub fn options_of_any(&self) -> Result<Options, Impossible> {
        Ok(Options {
            rule: self.rule()?,
            managers: self.managers()?,
            connections: self.connections,
            connect: Duration::from_secs(self.connect_seconds),
            idle: Duration::from_secs(self.idle_seconds),
            authorities: match &self.authorities {
                Some(file) => {
                    let refused = |words: String| {
                        let file = file.display();
                        Impossible::new("egress.authorities", format!("`{file}` {words}"))
                    };
                    let pem = fs::read(file);
                    let pem = pem.map_err(|error| refused(format!("cannot be read: {error}")))?;
                    authorities(&pem).map_err(|error| refused(error.to_string()))?
                }
                None => Vec::new(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_open_nothing_are_named() {
        let mut egress = Egress::default();
        assert_eq!(egress.check(), Ok(()));
        egress.open = vec![
            "10.1.0.0/16".to_owned(),
            "registry.internal:8443".to_owned(),
        ];
        egress.package_registries = Some(vec!["*.registry.internal".to_owned()]);
        assert_eq!(egress.check(), Ok(()));
        egress.open.push("http://a".to_owned());
        let error = egress.check().unwrap_err().to_string();
        assert!(
            error.starts_with("`egress.open`: `http://a` is neither"),
            "{error}"
        );
        egress.open.pop();
        egress.package_registries = Some(vec!["https://pypi.org".to_owned()]);
        let error = egress.check().unwrap_err().to_string();
        assert!(
            error.starts_with("`egress.package_registries`: `https://pypi.org`"),
            "{error}"
        );
    }
}
