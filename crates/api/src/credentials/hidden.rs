//! The secrets of a credential, between a request and the seal.

use outlast_protocol::{
    Secret,
    credential::{Auth, CreateAuth, EndpointAuth, Networking, UpdateAuth},
};
use outlast_vault::{ClientAuth, Content, Hosts, Refresh};

/// The secrets of a credential, whatever it is good for.
#[derive(Clone, Debug)]
pub(super) struct Hidden {
    /// The token, or the value.
    main: Secret,
    refresh_token: Option<Secret>,
    client_secret: Option<Secret>,
}

impl Hidden {
    /// Takes those of a new credential.
    pub(super) fn new(auth: &CreateAuth) -> Self {
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
            main: main.clone(),
            refresh_token: refresh.map(|refresh| refresh.refresh_token.clone()),
            client_secret: refresh.and_then(|refresh| refresh.client_secret.clone()),
        }
    }

    /// Takes those that were sealed.
    pub(super) fn held(content: Content) -> Self {
        let alone = |main| Self {
            main,
            refresh_token: None,
            client_secret: None,
        };
        match content {
            Content::StaticBearer { token, .. } | Content::Repository { token, .. } => alone(token),
            Content::EnvironmentVariable { value, .. } => alone(value),
            Content::McpOauth {
                access_token,
                refresh: None,
                ..
            } => alone(access_token),
            Content::McpOauth {
                access_token,
                refresh: Some(refresh),
                ..
            } => Self {
                main: access_token,
                refresh_token: Some(refresh.refresh_token),
                client_secret: match refresh.auth {
                    ClientAuth::None => None,
                    ClientAuth::Basic(secret) | ClientAuth::Post(secret) => Some(secret),
                },
            },
        }
    }

    /// Returns them with those that an update brings.
    pub(super) fn with(mut self, change: &UpdateAuth) -> Self {
        let main = match change {
            UpdateAuth::McpOauth {
                access_token,
                refresh,
                ..
            } => {
                if let Some(refresh) = refresh {
                    let token = refresh.refresh_token.clone();
                    self.refresh_token = token.or(self.refresh_token);
                    let secret = refresh.client_secret.clone();
                    self.client_secret = secret.or(self.client_secret);
                }
                access_token
            }
            UpdateAuth::StaticBearer { token } => token,
            UpdateAuth::EnvironmentVariable { secret_value, .. } => secret_value,
        };
        if let Some(main) = main {
            self.main = main.clone();
        }
        self
    }

    /// Returns what is sealed: they, and what they may be used for. `None` if one is missing.
    pub(super) fn content(self, auth: &Auth) -> Option<Content> {
        Some(match auth.clone() {
            Auth::McpOauth {
                mcp_server_url: url,
                expires_at,
                refresh,
            } => Content::McpOauth {
                url,
                access_token: self.main,
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
            } => Content::StaticBearer {
                url,
                token: self.main,
            },
            Auth::EnvironmentVariable {
                secret_name: name,
                networking,
                injection_location,
            } => Content::EnvironmentVariable {
                name,
                value: self.main,
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
