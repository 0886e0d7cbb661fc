//! How access tokens are renewed, in requests.

use super::{EndpointAuth, Refresh, address, create::secret};
use crate::read::{At, Patch, Slot};
use crate::{Problem, Secret, limits};

/// What a new credential says of the renewal of its access token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CreateRefresh {
    /// What may be shown of it.
    pub shown: Refresh,
    /// What the next access token is got with.
    pub refresh_token: Secret,
    /// What proves who asks, where that takes more than an id.
    pub client_secret: Option<Secret>,
}

/// What an update says of it; what it leaves out stays.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UpdateRefresh {
    /// Another refresh token.
    pub refresh_token: Option<Secret>,
    /// Another scope, or none.
    pub scope: Patch<String>,
    /// Another client secret.
    pub client_secret: Option<Secret>,
    /// Whether a client secret was spoken of, there or not.
    names_secret: bool,
}

impl CreateRefresh {
    pub(super) fn parse(at: &At<'_>) -> Result<Self, Problem> {
        let mut object = at.object()?;
        let token_endpoint = address::read(&object.field("token_endpoint").required()?)?;
        let client_id = object.field("client_id").required()?;
        let client_id = client_id.string(1..=limits::CLIENT_ID)?;
        let refresh_token = secret(&object.field("refresh_token").required()?)?;
        let auth = object.field("token_endpoint_auth").required()?;
        let (token_endpoint_auth, client_secret) = endpoint_auth(&auth)?;
        let resource = object.field("resource");
        let resource = resource.read(|at| at.string(1..=limits::SERVER_URL))?;
        let scope = scope(object.field("scope"))?.over(None);
        object.finish()?;
        Ok(Self {
            shown: Refresh {
                client_id,
                token_endpoint,
                token_endpoint_auth,
                resource,
                scope,
            },
            refresh_token,
            client_secret,
        })
    }
}

impl UpdateRefresh {
    pub(super) fn parse(at: &At<'_>) -> Result<Self, Problem> {
        let mut object = at.object()?;
        let refresh_token = object.field("refresh_token").read(secret)?;
        let scope = scope(object.field("scope"))?;
        let auth = object.field("token_endpoint_auth").not_clearable()?;
        let names_secret = auth.is_some();
        let client_secret = auth.map(|at| new_secret(&at)).transpose()?.flatten();
        object.finish()?;
        Ok(Self {
            refresh_token,
            scope,
            client_secret,
            names_secret,
        })
    }

    /// Lays it over what is stored.
    pub(super) fn over(self, stored: Option<Refresh>) -> Result<Refresh, Problem> {
        let mut next = stored.ok_or_else(|| {
            Problem::invalid(
                "auth.refresh: the credential was created without one and cannot get one; archive it \
                 and create another",
            )
        })?;
        if self.names_secret && next.token_endpoint_auth == EndpointAuth::None {
            return Err(Problem::invalid(
                "auth.refresh.token_endpoint_auth: the credential was created with `none` and cannot \
                 get a client secret; archive it and create another",
            ));
        }
        next.scope = self.scope.over(next.scope);
        Ok(next)
    }
}

/// Reads a scope: null says nothing, and an empty one is none.
fn scope(slot: Slot<'_>) -> Result<Patch<String>, Problem> {
    let scope = slot.read(|at| at.string(0..=limits::SCOPE))?;
    Ok(match scope {
        None => Patch::Keep,
        Some(scope) if scope.is_empty() => Patch::Clear,
        Some(scope) => Patch::Set(scope),
    })
}

fn endpoint_auth(at: &At<'_>) -> Result<(EndpointAuth, Option<Secret>), Problem> {
    let mut object = at.object()?;
    let kind = object.field("type").required()?.word(EndpointAuth::TABLE)?;
    let client_secret = match kind {
        EndpointAuth::None => None,
        EndpointAuth::ClientSecretBasic | EndpointAuth::ClientSecretPost => {
            Some(secret(&object.field("client_secret").required()?)?)
        }
    };
    object.finish()?;
    Ok((kind, client_secret))
}

/// Reads another client secret; which of the two types it names means nothing, the stored one stays.
fn new_secret(at: &At<'_>) -> Result<Option<Secret>, Problem> {
    let mut object = at.object()?;
    let types = EndpointAuth::TABLE.iter().copied();
    let types: Vec<_> = types
        .filter(|(_, kind)| *kind != EndpointAuth::None)
        .collect();
    object.field("type").required()?.word(&types)?;
    let client_secret = object.field("client_secret").read(secret)?;
    object.finish()?;
    Ok(client_secret)
}
