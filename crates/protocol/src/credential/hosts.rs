//! The hosts that a secret is given to.

use serde::{Deserialize, Serialize};

use crate::read::At;
use crate::words::words;
use crate::{Problem, host, limits};

/// The hosts that a secret is given to.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Networking {
    /// Every host that the sandbox reaches.
    Unrestricted,
    /// Those that are listed, and no other.
    Limited {
        /// Host names, IPv4 addresses, or `*.` and a name for its subdomains alone.
        allowed_hosts: Vec<String>,
    },
}

words! {
    /// The kinds.
    enum Kind {
        Unrestricted = "unrestricted",
        Limited = "limited",
    }
}

impl Networking {
    pub(super) fn parse(at: &At<'_>) -> Result<Self, Problem> {
        let mut object = at.object()?;
        let networking = match object.field("type").required()?.word(Kind::TABLE)? {
            Kind::Unrestricted => Self::Unrestricted,
            Kind::Limited => Self::Limited {
                allowed_hosts: hosts(&object.field("allowed_hosts").required()?)?,
            },
        };
        object.finish()?;
        Ok(networking)
    }
}

fn hosts(at: &At<'_>) -> Result<Vec<String>, Problem> {
    let items = at.items(0..=limits::CREDENTIAL_HOSTS)?;
    items.iter().map(host::entry).collect()
}
