//! Requests that create and update environments.
//!
//! In updates of environments null means the same as leaving the field out, as the SDK's types
//! say; `description` alone is cleared by it.

use serde_json::Value;

use super::networking::NetworkingRequest;
use super::{Config, Environment, Networking, Packages, Scope};
use crate::id::EnvironmentId;
use crate::metadata::{self, EmptyValue, MetadataPatch};
use crate::read::{At, Object, Patch, Slot};
use crate::words::words;
use crate::{ErrorCode, Metadata, Micros, Problem, limits};

/// A checked request to create an environment.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateEnvironment {
    name: String,
    description: Option<String>,
    metadata: Metadata,
    scope: Scope,
    networking: Networking,
}

impl CreateEnvironment {
    /// Reads the body of `POST /v1/environments`.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::root(body).object()?;
        let name = name(&object.field("name").required()?)?;
        let description = description(&mut object)?;
        let metadata = metadata::create(object.field("metadata"))?;
        let scope = object
            .field("scope")
            .read(scope)?
            .unwrap_or(Scope::Organization);
        let networking = networking(object.field("config"), ErrorCode::NotSupported)?;
        object.finish()?;
        Ok(Self {
            name,
            description: description.over(None),
            metadata,
            scope,
            networking: over(networking, Networking::Unrestricted),
        })
    }

    /// Makes the environment.
    pub fn resolve(self, id: EnvironmentId, now: Micros) -> Environment {
        Environment {
            id,
            archived_at: None,
            config: Config::Cloud {
                networking: self.networking,
                packages: Packages::default(),
            },
            created_at: now,
            description: self.description,
            metadata: self.metadata,
            name: self.name,
            scope: Some(self.scope),
            updated_at: now,
        }
    }
}

/// A checked request to update an environment.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateEnvironment {
    name: Option<String>,
    description: Patch<String>,
    metadata: MetadataPatch,
    scope: Option<Scope>,
    networking: Option<NetworkingRequest>,
}

impl UpdateEnvironment {
    /// Reads the body of `POST /v1/environments/{id}`.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::root(body).object()?;
        let update = Self {
            name: object.field("name").read(name)?,
            description: description(&mut object)?,
            metadata: metadata::patch(object.field("metadata"), EmptyValue::Deletes)?,
            scope: object.field("scope").read(scope)?,
            networking: networking(object.field("config"), ErrorCode::InvalidConfigTypeChange)?,
        };
        object.finish()?;
        Ok(update)
    }

    /// Makes the environment as it is afterwards, or `None` if the update changes nothing.
    ///
    /// Refuses an archived environment.
    pub fn apply(self, current: &Environment, now: Micros) -> Result<Option<Environment>, Problem> {
        if current.archived_at.is_some() {
            return Err(Problem::new(
                ErrorCode::EnvironmentArchived,
                format!(
                    "environment `{}` is archived and cannot be changed",
                    current.id
                ),
            ));
        }
        let mut next = current.clone();
        next.name = self.name.unwrap_or(next.name);
        next.description = self.description.over(next.description);
        next.metadata = self.metadata.apply(&next.metadata)?;
        next.scope = self.scope.or(next.scope);
        let Config::Cloud { networking, .. } = &mut next.config;
        *networking = over(self.networking, networking.clone());
        if next == *current {
            return Ok(None);
        }
        next.updated_at = now;
        Ok(Some(next))
    }
}

fn name(at: &At<'_>) -> Result<String, Problem> {
    at.string(1..=limits::ENVIRONMENT_NAME)
}

fn description(object: &mut Object<'_>) -> Result<Patch<String>, Problem> {
    let patch = object.field("description").patch();
    patch.try_map(|at| at.string(0..=limits::ENVIRONMENT_DESCRIPTION))
}

fn scope(at: &At<'_>) -> Result<Scope, Problem> {
    if at.raw() == "account" {
        return Err(at.refuse("must be `organization`; `account` is not available to API keys"));
    }
    at.word(Scope::TABLE)
}

fn over(request: Option<NetworkingRequest>, stored: Networking) -> Networking {
    match request {
        Some(request) => request.over(stored),
        None => stored,
    }
}

words! {
    /// The kinds of configuration.
    enum Kind {
        Cloud = "cloud",
        SelfHosted = "self_hosted",
    }
}

/// Reads `config`; `self_hosted` is refused with the given code.
fn networking(
    slot: Slot<'_>,
    self_hosted: ErrorCode,
) -> Result<Option<NetworkingRequest>, Problem> {
    let Some(at) = slot.optional() else {
        return Ok(None);
    };
    let mut object = at.object()?;
    let kind = object.field("type").required()?;
    match kind.word(Kind::TABLE)? {
        Kind::Cloud => {}
        Kind::SelfHosted if self_hosted == ErrorCode::NotSupported => {
            return Err(kind.problem(
                self_hosted,
                "not_supported: this server has no self-hosted environments yet; must be `cloud`",
            ));
        }
        Kind::SelfHosted => {
            return Err(kind.problem(self_hosted, "must stay `cloud`; it never changes"));
        }
    }
    let networking = object.field("networking").read(NetworkingRequest::parse)?;
    packages(object.field("packages"))?;
    object.finish()?;
    Ok(networking)
}

/// Refuses packages; the empty form passes, because responses have it.
fn packages(slot: Slot<'_>) -> Result<(), Problem> {
    let Some(at) = slot.optional() else {
        return Ok(());
    };
    let mut object = at.object()?;
    if let Some(kind) = object.field("type").optional() {
        kind.word(&[("packages", ())])?;
    }
    for manager in ["apt", "cargo", "gem", "go", "npm", "pip"] {
        object.field(manager).not_supported()?;
    }
    object.finish()
}
