//! Requests that create and update environments.
//!
//! In updates of environments null means the same as leaving the field out, as the SDK's types
//! say; `description` alone is cleared by it.

use serde_json::Value;

use super::networking::NetworkingRequest;
use super::own;
use super::packages::PackagesRequest;
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
    packages: Packages,
}

impl CreateEnvironment {
    /// Reads the body of `POST /v1/environments`.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::root(body).object()?;
        let name = name(&object.field("name").required()?)?;
        let description = description(&mut object)?;
        let metadata = metadata::create(object.field("metadata"))?;
        own::check(metadata.keys())?;
        let scope = object
            .field("scope")
            .read(scope)?
            .unwrap_or(Scope::Organization);
        let config = config(object.field("config"), ErrorCode::NotSupported)?;
        object.finish()?;
        let (networking, packages) = config.over(Networking::Unrestricted, Packages::default())?;
        Ok(Self {
            name,
            description: description.over(None),
            metadata,
            scope,
            networking,
            packages,
        })
    }

    /// Makes the environment.
    pub fn resolve(self, id: EnvironmentId, now: Micros) -> Environment {
        Environment {
            id,
            archived_at: None,
            config: Config::Cloud {
                networking: self.networking,
                packages: self.packages,
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
    config: ConfigRequest,
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
            config: config(object.field("config"), ErrorCode::InvalidConfigTypeChange)?,
        };
        object.finish()?;
        own::check(update.metadata.set())?;
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
        let Config::Cloud {
            networking,
            packages,
        } = next.config;
        let (networking, packages) = self.config.over(networking, packages)?;
        next.config = Config::Cloud {
            networking,
            packages,
        };
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

/// What a request says of `config`.
#[derive(Clone, Debug, Default, PartialEq)]
struct ConfigRequest {
    networking: Option<NetworkingRequest>,
    packages: PackagesRequest,
}

impl ConfigRequest {
    /// Lays the request over what is stored.
    ///
    /// Packages come from registries: networking that leaves these out has none.
    fn over(
        self,
        networking: Networking,
        packages: Packages,
    ) -> Result<(Networking, Packages), Problem> {
        let networking = match self.networking {
            Some(request) => request.over(networking),
            None => networking,
        };
        let packages = self.packages.over(packages);
        if !networking.has_package_managers() && !packages.is_empty() {
            return Err(Problem::invalid(
                "config.packages: must be empty while config.networking is `limited` without \
                 `allow_package_managers: true`",
            ));
        }
        Ok((networking, packages))
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
fn config(slot: Slot<'_>, self_hosted: ErrorCode) -> Result<ConfigRequest, Problem> {
    let Some(at) = slot.optional() else {
        return Ok(ConfigRequest::default());
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
    let packages = PackagesRequest::read(object.field("packages"))?;
    object.finish()?;
    Ok(ConfigRequest {
        networking,
        packages,
    })
}
