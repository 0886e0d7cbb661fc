//! Requests that create sessions.

use serde_json::Value;

use super::{AddResources, Overrides, parse_resources};
use crate::event::{self, ClientEvent};
use crate::id::{AgentId, EnvironmentId, VaultId};
use crate::read::{At, Object, Slot};
use crate::words::words;
use crate::{ErrorCode, Metadata, Problem, limits, metadata};

/// A checked request to create a session.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSession {
    /// The agent to copy.
    pub agent: AgentRef,
    /// Where its hands are made.
    pub environment_id: EnvironmentId,
    /// What people call the session.
    pub title: Option<String>,
    /// The client's own pairs.
    pub metadata: Metadata,
    /// What it starts with; `user.message` alone, for now.
    pub initial_events: Vec<ClientEvent>,
    /// What is mounted.
    pub resources: AddResources,
    /// The vaults whose credentials it may use, in the order in which they are looked through.
    pub vault_ids: Vec<VaultId>,
}

/// Which agent, which version, and what differs.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRef {
    /// The agent.
    pub id: AgentId,
    /// The version; `None` is the latest.
    pub version: Option<u32>,
    /// What the session changes of it.
    pub overrides: Overrides,
}

words! {
    /// The object forms of `agent`.
    enum Form {
        Plain = "agent",
        Overrides = "agent_with_overrides",
    }
}

impl CreateSession {
    /// Reads the body of `POST /v1/sessions`.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::confidential(body).object()?;
        let agent = AgentRef::parse(&object.field("agent").required()?)?;
        let environment = object.field("environment_id").required()?;
        let title = object.field("title");
        let create = Self {
            agent,
            environment_id: environment.id(ErrorCode::EnvironmentNotFound, "environment")?,
            title: title.read(|at| at.string(0..=limits::TITLE))?,
            metadata: metadata::create(object.field("metadata"))?,
            initial_events: event::parse_initial(object.field("initial_events"))?,
            resources: parse_resources(object.field("resources"))?,
            vault_ids: vaults(object.field("vault_ids"))?,
        };
        object.field("budget").not_supported()?;
        object.finish()?;
        Ok(create)
    }
}

impl AgentRef {
    fn parse(at: &At<'_>) -> Result<Self, Problem> {
        if at.raw().is_string() {
            return Ok(Self {
                id: at.id(ErrorCode::NotFound, "agent")?,
                version: None,
                overrides: Overrides::default(),
            });
        }
        if !at.raw().is_object() {
            return Err(at.refuse("must be an agent id or an object with `type` and `id`"));
        }
        let mut object = at.object()?;
        let form = object.field("type").required()?.word(Form::TABLE)?;
        let agent = Self {
            id: object
                .field("id")
                .required()?
                .id(ErrorCode::NotFound, "agent")?,
            version: version(&mut object)?,
            overrides: match form {
                Form::Plain => Overrides::default(),
                Form::Overrides => Overrides::parse(&mut object)?,
            },
        };
        object.finish()?;
        Ok(agent)
    }
}

/// Reads the ids of vaults; absent, null and empty are none.
fn vaults(slot: Slot<'_>) -> Result<Vec<VaultId>, Problem> {
    let Some(list) = slot.optional() else {
        return Ok(Vec::new());
    };
    let items = list.items(0..=limits::VAULT_IDS)?;
    let ids = items.iter().map(|at| at.id(ErrorCode::NotFound, "vault"));
    ids.collect()
}

fn version(object: &mut Object<'_>) -> Result<Option<u32>, Problem> {
    let version = object.field("version");
    let version = version.read(|at| at.int(1..=i64::from(u32::MAX)))?;
    Ok(version.and_then(|version| u32::try_from(version).ok()))
}
