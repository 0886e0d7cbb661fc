//! What a credential is good for, without its secrets.

use serde::{Deserialize, Serialize};

use super::{Location, Networking, address};
use crate::Micros;
use crate::words::words;

/// The kinds of credential, each with what may be shown of it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Auth {
    /// An access token for an MCP server, with what it takes to get the next one.
    McpOauth {
        /// The server, byte for byte as it was sent.
        mcp_server_url: String,
        /// When the access token ends, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Micros>,
        /// How the next one is got.
        refresh: Option<Refresh>,
    },
    /// A token for an MCP server that stays the same.
    StaticBearer {
        /// The server, byte for byte as it was sent.
        mcp_server_url: String,
    },
    /// A secret that stands in requests of a sandbox which its program cannot see.
    EnvironmentVariable {
        /// The variable that holds the placeholder.
        secret_name: String,
        /// The hosts that it is given to.
        networking: Networking,
        /// The parts of a request that it is put into.
        injection_location: Location,
    },
}

words! {
    /// The kinds of credential.
    pub enum Kind {
        /// Tokens that end and are renewed.
        McpOauth = "mcp_oauth",
        /// Tokens that stay.
        StaticBearer = "static_bearer",
        /// Variables.
        EnvironmentVariable = "environment_variable",
    }
}

/// How an access token is renewed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Refresh {
    /// Who asks.
    pub client_id: String,
    /// Where.
    pub token_endpoint: String,
    /// How it is known there.
    pub token_endpoint_auth: EndpointAuth,
    /// The resource that the token is for.
    pub resource: Option<String>,
    /// What the token shall permit.
    pub scope: Option<String>,
}

words! {
    /// How a client is known to a token endpoint.
    #[serde(tag = "type")]
    pub enum EndpointAuth {
        /// By its id alone.
        None = "none",
        /// By HTTP Basic authentication.
        ClientSecretBasic = "client_secret_basic",
        /// By fields of the form that it posts.
        ClientSecretPost = "client_secret_post",
    }
}

impl Auth {
    /// Returns its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::McpOauth { .. } => Kind::McpOauth,
            Self::StaticBearer { .. } => Kind::StaticBearer,
            Self::EnvironmentVariable { .. } => Kind::EnvironmentVariable,
        }
    }

    /// Returns the field that only one active credential of a vault may have with this value.
    pub fn key_field(&self) -> &'static str {
        match self {
            Self::McpOauth { .. } | Self::StaticBearer { .. } => "mcp_server_url",
            Self::EnvironmentVariable { .. } => "secret_name",
        }
    }

    /// Returns what only one active credential of a vault may have.
    ///
    /// Two addresses that name one MCP server are one: which credential it gets would be chance.
    pub fn key(&self) -> String {
        let value = match self {
            Self::McpOauth { mcp_server_url, .. } | Self::StaticBearer { mcp_server_url } => {
                address::normal(mcp_server_url)
            }
            Self::EnvironmentVariable { secret_name, .. } => secret_name.clone(),
        };
        format!("{} {value}", self.key_field())
    }
}
