//! What hands may reach: validated and stored.

use serde::{Deserialize, Serialize};

use crate::read::At;
use crate::words::words;
use crate::{Problem, host, limits};

/// What hands of an environment may reach.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Networking {
    /// Every public host.
    Unrestricted,
    /// What is listed, and nothing else.
    Limited {
        /// Host names, or `*.` and a name for its subdomains alone.
        allowed_hosts: Vec<String>,
        /// Also the hosts of the agent's MCP servers.
        allow_mcp_servers: bool,
        /// Also the public package registries.
        allow_package_managers: bool,
    },
}

impl Networking {
    /// Tells whether the public package registries are among what may be reached.
    pub fn has_package_managers(&self) -> bool {
        match self {
            Self::Unrestricted => true,
            Self::Limited {
                allow_package_managers,
                ..
            } => *allow_package_managers,
        }
    }
}

/// Networking as a client asks for it: what is left out keeps its value or takes its default.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum NetworkingRequest {
    Unrestricted,
    Limited(LimitedRequest),
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct LimitedRequest {
    allowed_hosts: Option<Vec<String>>,
    allow_mcp_servers: Option<bool>,
    allow_package_managers: Option<bool>,
}

words! {
    /// The kinds.
    enum Kind {
        Unrestricted = "unrestricted",
        Limited = "limited",
    }
}

impl NetworkingRequest {
    pub(super) fn parse(at: &At<'_>) -> Result<Self, Problem> {
        let mut object = at.object()?;
        let request = match object.field("type").required()?.word(Kind::TABLE)? {
            Kind::Unrestricted => Self::Unrestricted,
            Kind::Limited => Self::Limited(LimitedRequest {
                allowed_hosts: object.field("allowed_hosts").read(hosts)?,
                allow_mcp_servers: object.field("allow_mcp_servers").read(At::boolean)?,
                allow_package_managers: object.field("allow_package_managers").read(At::boolean)?,
            }),
        };
        object.finish()?;
        Ok(request)
    }

    /// Lays the request over what is stored.
    pub(super) fn over(self, stored: Networking) -> Networking {
        let Self::Limited(request) = self else {
            return Networking::Unrestricted;
        };
        let (hosts, mcp, packages) = match stored {
            Networking::Unrestricted => (Vec::new(), false, false),
            Networking::Limited {
                allowed_hosts,
                allow_mcp_servers,
                allow_package_managers,
            } => (allowed_hosts, allow_mcp_servers, allow_package_managers),
        };
        Networking::Limited {
            allowed_hosts: request.allowed_hosts.unwrap_or(hosts),
            allow_mcp_servers: request.allow_mcp_servers.unwrap_or(mcp),
            allow_package_managers: request.allow_package_managers.unwrap_or(packages),
        }
    }
}

fn hosts(at: &At<'_>) -> Result<Vec<String>, Problem> {
    let items = at.items(0..=limits::ALLOWED_HOSTS)?;
    items.iter().map(host::entry).collect()
}
