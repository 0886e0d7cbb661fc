//! What a seal holds: the secrets of one credential, and what they may be used for.

use outlast_protocol::Micros;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::Secret;

/// The secrets of one credential, and what they may be used for.
///
/// It can be read from a seal but not serialized by anybody else.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// A token for an MCP server.
    StaticBearer {
        /// The server, as it was written.
        url: String,
        /// The token.
        token: Secret,
    },
    /// A token for an MCP server that can be refreshed.
    McpOauth {
        /// The server, as it was written.
        url: String,
        /// The token.
        access_token: Secret,
        /// When it ends, if that is known.
        expires_at: Option<Micros>,
        /// How to get the next one.
        refresh: Option<Refresh>,
    },
    /// A value for programs in a hand, which see a placeholder.
    EnvironmentVariable {
        /// The variable.
        name: String,
        /// Its value.
        value: Secret,
        /// Which hosts may get it.
        hosts: Hosts,
        /// Whether it is put into headers.
        header: bool,
        /// Whether it is put into bodies.
        body: bool,
    },
    /// A token for the host of a git repository.
    Repository {
        /// The remote, as it was written.
        url: String,
        /// The token.
        token: Secret,
    },
}

/// How to get the next access token.
#[derive(Clone, Debug, Deserialize)]
pub struct Refresh {
    /// Where.
    pub token_endpoint: String,
    /// As whom.
    pub client_id: String,
    /// With what.
    pub refresh_token: Secret,
    /// How the client says who it is.
    pub auth: ClientAuth,
    /// The resource that is asked for.
    pub resource: Option<String>,
    /// The scope that is asked for.
    pub scope: Option<String>,
}

/// How a client says who it is at a token endpoint.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// By its id alone.
    None,
    /// With a secret in the `authorization` header.
    Basic(Secret),
    /// With a secret in the body.
    Post(Secret),
}

/// Which hosts may get a value.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hosts {
    /// All that the environment lets through.
    Unrestricted,
    /// These: names, IPv4 addresses, and `*.name` for what lies below a name.
    Limited(Vec<String>),
}

impl Content {
    /// Returns every secret in it.
    pub fn secrets(&self) -> Vec<&Secret> {
        match self {
            Self::StaticBearer { token, .. } | Self::Repository { token, .. } => vec![token],
            Self::EnvironmentVariable { value, .. } => vec![value],
            Self::McpOauth {
                access_token,
                refresh,
                ..
            } => {
                let further = refresh.iter().flat_map(Refresh::secrets);
                [access_token].into_iter().chain(further).collect()
            }
        }
    }

    /// Writes it out, to be sealed.
    pub(crate) fn bytes(&self) -> Zeroizing<Vec<u8>> {
        written(&Exposed::from(self))
    }
}

/// Writes out what has secrets in it.
pub(crate) fn written(exposed: &impl Serialize) -> Zeroizing<Vec<u8>> {
    // A buffer that grows leaves what it held behind, so it has room for all from the start.
    let mut room = Count(0);
    let counted = serde_json::to_writer(&mut room, exposed);
    let mut bytes = Zeroizing::new(Vec::with_capacity(room.0));
    let written = serde_json::to_writer(&mut *bytes, exposed);
    debug_assert!(
        counted.is_ok() && written.is_ok(),
        "it is texts and numbers"
    );
    bytes
}

impl Refresh {
    fn secrets(&self) -> Vec<&Secret> {
        let client = match &self.auth {
            ClientAuth::None => None,
            ClientAuth::Basic(secret) | ClientAuth::Post(secret) => Some(secret),
        };
        [&self.refresh_token].into_iter().chain(client).collect()
    }
}

/// Counts what is written.
struct Count(usize);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The same for the inside of a seal alone, with its secrets in the open.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Exposed<'a> {
    StaticBearer {
        url: &'a str,
        token: &'a str,
    },
    McpOauth {
        url: &'a str,
        access_token: &'a str,
        expires_at: Option<Micros>,
        refresh: Option<ExposedRefresh<'a>>,
    },
    EnvironmentVariable {
        name: &'a str,
        value: &'a str,
        hosts: &'a Hosts,
        header: bool,
        body: bool,
    },
    Repository {
        url: &'a str,
        token: &'a str,
    },
}

#[derive(Serialize)]
struct ExposedRefresh<'a> {
    token_endpoint: &'a str,
    client_id: &'a str,
    refresh_token: &'a str,
    auth: ExposedAuth<'a>,
    resource: Option<&'a str>,
    scope: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ExposedAuth<'a> {
    None,
    Basic(&'a str),
    Post(&'a str),
}

impl<'a> From<&'a Content> for Exposed<'a> {
    fn from(content: &'a Content) -> Self {
        match content {
            Content::StaticBearer { url, token } => Self::StaticBearer {
                url,
                token: token.expose(),
            },
            Content::McpOauth {
                url,
                access_token,
                expires_at,
                refresh,
            } => Self::McpOauth {
                url,
                access_token: access_token.expose(),
                expires_at: *expires_at,
                refresh: refresh.as_ref().map(Into::into),
            },
            Content::EnvironmentVariable {
                name,
                value,
                hosts,
                header,
                body,
            } => Self::EnvironmentVariable {
                name,
                value: value.expose(),
                hosts,
                header: *header,
                body: *body,
            },
            Content::Repository { url, token } => Self::Repository {
                url,
                token: token.expose(),
            },
        }
    }
}

impl<'a> From<&'a Refresh> for ExposedRefresh<'a> {
    fn from(refresh: &'a Refresh) -> Self {
        Self {
            token_endpoint: &refresh.token_endpoint,
            client_id: &refresh.client_id,
            refresh_token: refresh.refresh_token.expose(),
            auth: match &refresh.auth {
                ClientAuth::None => ExposedAuth::None,
                ClientAuth::Basic(secret) => ExposedAuth::Basic(secret.expose()),
                ClientAuth::Post(secret) => ExposedAuth::Post(secret.expose()),
            },
            resource: refresh.resource.as_deref(),
            scope: refresh.scope.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind, with everything that a kind can have.
    fn all() -> Vec<Content> {
        let refresh = |auth| Refresh {
            token_endpoint: "https://login.example.com/token".to_owned(),
            client_id: "client".to_owned(),
            refresh_token: "refresh-1".into(),
            auth,
            resource: Some("https://mcp.example.com".to_owned()),
            scope: None,
        };
        let oauth = |refresh| Content::McpOauth {
            url: "https://mcp.example.com/mcp".to_owned(),
            access_token: "access-\"1\"\n".into(),
            expires_at: Some(Micros(1_800_000_000_000_001)),
            refresh,
        };
        let variable = |hosts| Content::EnvironmentVariable {
            name: "TOKEN".to_owned(),
            value: "value-1".into(),
            hosts,
            header: true,
            body: false,
        };
        vec![
            Content::StaticBearer {
                url: "https://mcp.example.com/".to_owned(),
                token: "token-1".into(),
            },
            oauth(None),
            oauth(Some(refresh(ClientAuth::None))),
            oauth(Some(refresh(ClientAuth::Basic("client-1".into())))),
            oauth(Some(refresh(ClientAuth::Post("client-2".into())))),
            variable(Hosts::Unrestricted),
            variable(Hosts::Limited(vec!["*.example.com".to_owned()])),
            Content::Repository {
                url: "https://git.example.com/a/b".to_owned(),
                token: "token-2".into(),
            },
        ]
    }

    #[test]
    fn everything_comes_back_out_of_a_seal() {
        for content in all() {
            let bytes = content.bytes();
            assert_eq!(bytes.len(), bytes.capacity(), "it never grew");
            let back: Content = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(back.bytes(), bytes);
            let exposed = |content: &Content| {
                let secrets = content.secrets().into_iter();
                secrets
                    .map(|one| one.expose().to_owned())
                    .collect::<Vec<_>>()
            };
            assert_eq!(exposed(&back), exposed(&content));
            assert!(!exposed(&content).is_empty());
        }
    }

    #[test]
    fn no_secret_is_in_what_is_printed() {
        for content in all() {
            let printed = format!("{content:?} {content:#?}");
            for secret in content.secrets() {
                assert!(!printed.contains(secret.expose()), "{printed}");
            }
        }
    }
}
