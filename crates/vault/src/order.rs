//! What is to be sealed: secrets that somebody brings, and what they may be used for.

use outlast_protocol::credential::{Auth, CreateAuth, EndpointAuth, Networking, UpdateAuth};
use outlast_store::SealedSecret;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{ClientAuth, Content, Hosts, Refresh, Secret, content::written};

/// What is to be sealed, and for whom.
#[derive(Clone, Debug, Deserialize)]
pub struct Order {
    /// What it is of: a credential, or a resource of a session.
    pub owner: String,
    /// The vault or session of that.
    pub parent: String,
    /// From 1, one more with every change.
    pub revision: u64,
    /// What it may be used for.
    pub purpose: Use,
    /// The secrets that are new.
    pub brought: Brought,
    /// What it takes the place of: what is not brought stays as it is there.
    pub before: Option<SealedSecret>,
}

/// What secrets may be used for.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// What a credential is good for.
    Credential(Auth),
    /// A repository, by its address.
    Repository(String),
}

/// The secrets that a request brings, whatever they are good for.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Brought {
    /// The token, or the value.
    pub main: Option<Secret>,
    /// What gets the next access token.
    pub refresh_token: Option<Secret>,
    /// What the client shows for that.
    pub client_secret: Option<Secret>,
}

impl From<&CreateAuth> for Brought {
    fn from(auth: &CreateAuth) -> Self {
        let (main, refresh) = match auth {
            CreateAuth::McpOauth {
                access_token,
                refresh,
                ..
            } => (access_token, refresh.as_ref()),
            CreateAuth::StaticBearer { token, .. } => (token, None),
            CreateAuth::EnvironmentVariable { secret_value, .. } => (secret_value, None),
        };
        Self {
            main: Some(main.clone()),
            refresh_token: refresh.map(|refresh| refresh.refresh_token.clone()),
            client_secret: refresh.and_then(|refresh| refresh.client_secret.clone()),
        }
    }
}

impl From<&UpdateAuth> for Brought {
    fn from(change: &UpdateAuth) -> Self {
        let (main, refresh) = match change {
            UpdateAuth::McpOauth {
                access_token,
                refresh,
                ..
            } => (access_token, refresh.as_ref()),
            UpdateAuth::StaticBearer { token } => (token, None),
            UpdateAuth::EnvironmentVariable { secret_value, .. } => (secret_value, None),
        };
        Self {
            main: main.clone(),
            refresh_token: refresh.and_then(|refresh| refresh.refresh_token.clone()),
            client_secret: refresh.and_then(|refresh| refresh.client_secret.clone()),
        }
    }
}

impl From<&Secret> for Brought {
    fn from(main: &Secret) -> Self {
        Self {
            main: Some(main.clone()),
            ..Self::default()
        }
    }
}

impl Order {
    /// Writes it out for whoever seals, with its secrets in the open.
    pub fn exposed(&self) -> Zeroizing<Vec<u8>> {
        let Brought {
            main,
            refresh_token,
            client_secret,
        } = &self.brought;
        written(&Exposed {
            owner: &self.owner,
            parent: &self.parent,
            revision: self.revision,
            purpose: &self.purpose,
            brought: ExposedBrought {
                main: main.as_ref().map(Secret::expose),
                refresh_token: refresh_token.as_ref().map(Secret::expose),
                client_secret: client_secret.as_ref().map(Secret::expose),
            },
            before: self.before.as_ref(),
        })
    }
}

/// The same for the way to whoever seals alone.
#[derive(Serialize)]
struct Exposed<'a> {
    owner: &'a str,
    parent: &'a str,
    revision: u64,
    purpose: &'a Use,
    brought: ExposedBrought<'a>,
    before: Option<&'a SealedSecret>,
}

#[derive(Serialize)]
struct ExposedBrought<'a> {
    main: Option<&'a str>,
    refresh_token: Option<&'a str>,
    client_secret: Option<&'a str>,
}

impl Brought {
    /// Takes what is not new from what was sealed.
    pub(crate) fn or(self, held: &Content) -> Self {
        let (main, refresh) = match held {
            Content::StaticBearer { token, .. } | Content::Repository { token, .. } => {
                (token, None)
            }
            Content::EnvironmentVariable { value, .. } => (value, None),
            Content::McpOauth {
                access_token,
                refresh,
                ..
            } => (access_token, refresh.as_ref()),
        };
        let token = refresh.map(|refresh| &refresh.refresh_token);
        let client = refresh.and_then(|refresh| match &refresh.auth {
            ClientAuth::None => None,
            ClientAuth::Basic(secret) | ClientAuth::Post(secret) => Some(secret),
        });
        Self {
            main: self.main.or_else(|| Some(main.clone())),
            refresh_token: self.refresh_token.or_else(|| token.cloned()),
            client_secret: self.client_secret.or_else(|| client.cloned()),
        }
    }

    /// Returns what is sealed: they, and what they may be used for. `None` if one is missing.
    pub(crate) fn content(self, purpose: Use) -> Option<Content> {
        let main = self.main?;
        let auth = match purpose {
            Use::Repository(url) => return Some(Content::Repository { url, token: main }),
            Use::Credential(auth) => auth,
        };
        Some(match auth {
            Auth::McpOauth {
                mcp_server_url: url,
                expires_at,
                refresh,
            } => Content::McpOauth {
                url,
                access_token: main,
                expires_at,
                refresh: match refresh {
                    None => None,
                    Some(refresh) => Some(Refresh {
                        token_endpoint: refresh.token_endpoint,
                        client_id: refresh.client_id,
                        refresh_token: self.refresh_token?,
                        auth: match refresh.token_endpoint_auth {
                            EndpointAuth::None => ClientAuth::None,
                            EndpointAuth::ClientSecretBasic => {
                                ClientAuth::Basic(self.client_secret?)
                            }
                            EndpointAuth::ClientSecretPost => ClientAuth::Post(self.client_secret?),
                        },
                        resource: refresh.resource,
                        scope: refresh.scope,
                    }),
                },
            },
            Auth::StaticBearer {
                mcp_server_url: url,
            } => Content::StaticBearer { url, token: main },
            Auth::EnvironmentVariable {
                secret_name: name,
                networking,
                injection_location,
            } => Content::EnvironmentVariable {
                name,
                value: main,
                hosts: match networking {
                    Networking::Unrestricted => Hosts::Unrestricted,
                    Networking::Limited { allowed_hosts } => Hosts::Limited(allowed_hosts),
                },
                header: injection_location.header,
                body: injection_location.body,
            },
        })
    }
}

/// Tells whether secrets that are kept would go to another place than before. Only a variable's hosts may
/// change at all.
pub(crate) fn is_moved(before: &Content, after: &Content) -> bool {
    match (before, after) {
        (Content::StaticBearer { url, .. }, Content::StaticBearer { url: new, .. })
        | (Content::Repository { url, .. }, Content::Repository { url: new, .. }) => url != new,
        (
            Content::McpOauth { url, refresh, .. },
            Content::McpOauth {
                url: new,
                refresh: renewed,
                ..
            },
        ) => {
            let place = |refresh: &Option<Refresh>| {
                refresh
                    .as_ref()
                    .map(|refresh| refresh.token_endpoint.clone())
            };
            url != new || place(refresh) != place(renewed)
        }
        (Content::EnvironmentVariable { .. }, Content::EnvironmentVariable { .. }) => false,
        _ => true,
    }
}

/// Tells whether a variable may go to more hosts than before.
pub(crate) fn is_widened(before: &Content, after: &Content) -> bool {
    let (
        Content::EnvironmentVariable { hosts, .. },
        Content::EnvironmentVariable { hosts: new, .. },
    ) = (before, after)
    else {
        return false;
    };
    match (hosts, new) {
        (Hosts::Unrestricted, _) => false,
        (Hosts::Limited(_), Hosts::Unrestricted) => true,
        (Hosts::Limited(hosts), Hosts::Limited(new)) => {
            new.iter().any(|host| !hosts.contains(host))
        }
    }
}
