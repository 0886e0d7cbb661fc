//! Requests that update credentials.
//!
//! Null means the same as leaving a field out, except where it clears (`display_name`) and where the
//! API refuses it (`injection_location` and what is in it).

use serde_json::Value;

use super::create::{future, secret, token};
use super::{Auth, Credential, Kind, Networking, UpdateRefresh, location::LocationPatch};
use crate::metadata::{self, EmptyValue, MetadataPatch};
use crate::read::{At, Patch};
use crate::{Micros, Problem, Secret, limits};

/// A checked request to update a credential.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpdateCredential {
    /// What it is good for from now on.
    pub auth: Option<UpdateAuth>,
    display_name: Patch<String>,
    metadata: MetadataPatch,
}

/// What changes of what a credential is good for; its kind never does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UpdateAuth {
    /// An access token, and what it takes to get the next one.
    McpOauth {
        /// Another token.
        access_token: Option<Secret>,
        /// When it ends; if absent the end of the one before stays.
        expires_at: Option<Micros>,
        /// What changes of how the next one is got.
        refresh: Option<UpdateRefresh>,
    },
    /// A token that stays the same.
    StaticBearer {
        /// Another token.
        token: Option<Secret>,
    },
    /// A secret behind a variable.
    EnvironmentVariable {
        /// Another secret.
        secret_value: Option<Secret>,
        /// Other hosts.
        networking: Option<Networking>,
        /// Other parts of a request.
        injection_location: LocationPatch,
    },
}

impl UpdateCredential {
    /// Reads the body of `POST /v1/vaults/{vault_id}/credentials/{credential_id}`.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::confidential(body).object()?;
        let auth = object.field("auth").not_clearable()?;
        let name = object.field("display_name").patch();
        let update = Self {
            auth: auth.map(|at| UpdateAuth::parse(&at)).transpose()?,
            display_name: name.try_map(|at| at.string(1..=limits::DISPLAY_NAME))?,
            metadata: metadata::patch(object.field("metadata"), EmptyValue::Kept)?,
        };
        object.finish()?;
        Ok(update)
    }

    /// Makes what is shown of the credential afterwards; equal to `current` if nothing of that changes.
    ///
    /// Refuses an archived credential, and another kind than it has.
    pub fn apply(self, current: &Credential, now: Micros) -> Result<Credential, Problem> {
        if current.archived_at.is_some() {
            return Err(Problem::invalid(format!(
                "credential `{}` is archived and cannot be changed",
                current.id
            )));
        }
        let renews = self.renews();
        let mut next = current.clone();
        if let Some(auth) = self.auth {
            next.auth = auth.over(next.auth, now)?;
        }
        next.display_name = self.display_name.over(next.display_name);
        next.metadata = self.metadata.apply(&next.metadata)?;
        if renews || next != *current {
            next.updated_at = now;
        }
        Ok(next)
    }

    /// Tells whether it brings a secret.
    ///
    /// Whether that is the one that is stored is not looked at: an answer that depended on it would
    /// let a secret be guessed.
    pub fn renews(&self) -> bool {
        match &self.auth {
            None => false,
            Some(UpdateAuth::McpOauth {
                access_token,
                refresh,
                ..
            }) => {
                let refresh = refresh.as_ref();
                access_token.is_some()
                    || refresh.is_some_and(|refresh| {
                        refresh.refresh_token.is_some() || refresh.client_secret.is_some()
                    })
            }
            Some(UpdateAuth::StaticBearer { token }) => token.is_some(),
            Some(UpdateAuth::EnvironmentVariable { secret_value, .. }) => secret_value.is_some(),
        }
    }
}

impl UpdateAuth {
    fn parse(at: &At<'_>) -> Result<Self, Problem> {
        let mut object = at.object()?;
        let auth = match object.field("type").required()?.word(Kind::TABLE)? {
            Kind::McpOauth => Self::McpOauth {
                access_token: object.field("access_token").read(token)?,
                expires_at: object.field("expires_at").read(At::moment)?,
                refresh: object.field("refresh").read(UpdateRefresh::parse)?,
            },
            Kind::StaticBearer => Self::StaticBearer {
                token: object.field("token").read(token)?,
            },
            Kind::EnvironmentVariable => Self::EnvironmentVariable {
                secret_value: object.field("secret_value").read(secret)?,
                networking: object.field("networking").read(Networking::parse)?,
                injection_location: {
                    let at = object.field("injection_location").not_clearable()?;
                    let patch = at.map(|at| LocationPatch::read(&at)).transpose()?;
                    patch.unwrap_or_default()
                },
            },
        };
        object.finish()?;
        Ok(auth)
    }

    fn over(self, stored: Auth, now: Micros) -> Result<Auth, Problem> {
        Ok(match (self, stored) {
            (
                Self::McpOauth {
                    expires_at: end,
                    refresh: change,
                    ..
                },
                Auth::McpOauth {
                    mcp_server_url,
                    expires_at,
                    refresh,
                },
            ) => Auth::McpOauth {
                mcp_server_url,
                expires_at: end.map(|at| future(at, now)).transpose()?.or(expires_at),
                refresh: match change {
                    None => refresh,
                    Some(change) => Some(change.over(refresh)?),
                },
            },
            (Self::StaticBearer { .. }, stored @ Auth::StaticBearer { .. }) => stored,
            (
                Self::EnvironmentVariable {
                    networking: hosts,
                    injection_location: patch,
                    ..
                },
                Auth::EnvironmentVariable {
                    secret_name,
                    networking,
                    injection_location,
                },
            ) => Auth::EnvironmentVariable {
                secret_name,
                networking: hosts.unwrap_or(networking),
                injection_location: patch.over(injection_location)?,
            },
            (_, stored) => return Err(other_kind(&stored)),
        })
    }
}

fn other_kind(stored: &Auth) -> Problem {
    Problem::invalid(format!(
        "auth.type: must be `{}`, as the credential was created; it never changes",
        stored.kind().as_str()
    ))
}
