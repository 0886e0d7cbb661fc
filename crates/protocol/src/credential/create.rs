//! Requests that create credentials.

use serde_json::Value;

use super::{Auth, CreateRefresh, Credential, Kind, Location, Networking, address, reserved};
use crate::id::{CredentialId, VaultId};
use crate::read::At;
use crate::{Metadata, Micros, Problem, Secret, limits, metadata};

/// A checked request to create a credential.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateCredential {
    /// What it is good for, with its secrets.
    pub auth: CreateAuth,
    display_name: Option<String>,
    metadata: Metadata,
}

/// What a new credential is good for, with its secrets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CreateAuth {
    /// An access token, and what it takes to get the next one.
    McpOauth {
        /// The server.
        mcp_server_url: String,
        /// The token.
        access_token: Secret,
        /// When it ends.
        expires_at: Option<Micros>,
        /// How the next one is got.
        refresh: Option<CreateRefresh>,
    },
    /// A token that stays the same.
    StaticBearer {
        /// The server.
        mcp_server_url: String,
        /// The token.
        token: Secret,
    },
    /// A secret behind a variable.
    EnvironmentVariable {
        /// The variable.
        secret_name: String,
        /// The secret.
        secret_value: Secret,
        /// The hosts that it is given to.
        networking: Networking,
        /// The parts of a request that it is put into.
        injection_location: Location,
    },
}

impl CreateCredential {
    /// Reads the body of `POST /v1/vaults/{vault_id}/credentials`.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::confidential(body).object()?;
        let create = Self {
            auth: CreateAuth::parse(&object.field("auth").required()?)?,
            display_name: object
                .field("display_name")
                .read(|at| at.string(0..=limits::DISPLAY_NAME))?,
            metadata: metadata::create(object.field("metadata"))?,
        };
        object.finish()?;
        Ok(create)
    }

    /// Makes the credential, without its secrets.
    ///
    /// Refuses an access token that has ended.
    pub fn resolve(
        &self,
        id: CredentialId,
        vault_id: VaultId,
        now: Micros,
    ) -> Result<Credential, Problem> {
        Ok(Credential {
            id,
            archived_at: None,
            auth: self.auth.shown(now)?,
            created_at: now,
            display_name: self.display_name.clone(),
            metadata: self.metadata.clone(),
            updated_at: now,
            vault_id,
        })
    }
}

impl CreateAuth {
    fn parse(at: &At<'_>) -> Result<Self, Problem> {
        let mut object = at.object()?;
        let auth = match object.field("type").required()?.word(Kind::TABLE)? {
            Kind::McpOauth => Self::McpOauth {
                mcp_server_url: address::read(&object.field("mcp_server_url").required()?)?,
                access_token: token(&object.field("access_token").required()?)?,
                expires_at: object.field("expires_at").read(At::moment)?,
                refresh: object.field("refresh").read(CreateRefresh::parse)?,
            },
            Kind::StaticBearer => Self::StaticBearer {
                mcp_server_url: address::read(&object.field("mcp_server_url").required()?)?,
                token: token(&object.field("token").required()?)?,
            },
            Kind::EnvironmentVariable => Self::EnvironmentVariable {
                secret_name: variable(&object.field("secret_name").required()?)?,
                secret_value: secret(&object.field("secret_value").required()?)?,
                networking: Networking::parse(&object.field("networking").required()?)?,
                injection_location: Location::create(object.field("injection_location"))?,
            },
        };
        object.finish()?;
        Ok(auth)
    }

    fn shown(&self, now: Micros) -> Result<Auth, Problem> {
        Ok(match self.clone() {
            Self::McpOauth {
                mcp_server_url,
                expires_at,
                refresh,
                ..
            } => Auth::McpOauth {
                mcp_server_url,
                expires_at: expires_at.map(|at| future(at, now)).transpose()?,
                refresh: refresh.map(|refresh| refresh.shown),
            },
            Self::StaticBearer { mcp_server_url, .. } => Auth::StaticBearer { mcp_server_url },
            Self::EnvironmentVariable {
                secret_name,
                networking,
                injection_location,
                ..
            } => Auth::EnvironmentVariable {
                secret_name,
                networking,
                injection_location,
            },
        })
    }
}

/// Refuses an end that has come already.
pub(super) fn future(at: Micros, now: Micros) -> Result<Micros, Problem> {
    if at > now {
        return Ok(at);
    }
    Err(Problem::invalid(format!(
        "auth.expires_at: must be in the future, and it is {now}"
    )))
}

/// Reads a secret; no refusal quotes it.
pub(super) fn secret(at: &At<'_>) -> Result<Secret, Problem> {
    at.string(1..=limits::SECRET).map(Secret::new)
}

/// Reads a token that is to stand in a header.
pub(super) fn token(at: &At<'_>) -> Result<Secret, Problem> {
    let token = secret(at)?;
    let mut bytes = token.expose().bytes();
    if bytes.all(|byte| byte.is_ascii_graphic()) {
        return Ok(token);
    }
    Err(at
        .refuse("must have printable ASCII characters without spaces alone, to stand in a header"))
}

fn variable(at: &At<'_>) -> Result<String, Problem> {
    let name = at.string(1..=limits::SECRET_NAME)?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !name.bytes().all(is_word) || name.starts_with(|first: char| first.is_ascii_digit()) {
        let words =
            "must be letters, digits and `_`, and not begin with a digit, as in `API_TOKEN`";
        return Err(at.refuse(words));
    }
    match reserved::why(&name) {
        None => Ok(name),
        Some(why) => Err(at.refuse(format_args!("cannot be `{name}`: {why}; choose another"))),
    }
}
