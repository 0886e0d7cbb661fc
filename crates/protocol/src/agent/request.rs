//! Requests that create and update agents.

use serde_json::Value;

use super::{Agent, ExecutionIdentity, ModelRequest, Tools};
use crate::facts::Models;
use crate::id::AgentId;
use crate::metadata::{self, EmptyValue, MetadataPatch};
use crate::read::{At, Object, Patch, Slot};
use crate::{ErrorCode, Metadata, Micros, Problem, limits};

/// A checked request to create an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateAgent {
    name: String,
    model: ModelRequest,
    description: Option<String>,
    system: Option<String>,
    tools: Tools,
    execution_identity: ExecutionIdentity,
    metadata: Metadata,
}

impl CreateAgent {
    /// Reads the body of `POST /v1/agents`.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::root(body).object()?;
        let name = name(&object.field("name").required()?)?;
        let model = ModelRequest::parse(&object.field("model").required()?)?;
        let description = text(object.field("description"), limits::AGENT_DESCRIPTION)?;
        let system = text(object.field("system"), limits::SYSTEM)?;
        let tools = object.field("tools").read(Tools::parse)?;
        let identity = object.field("execution_identity");
        let identity = identity.read(ExecutionIdentity::parse)?;
        let create = Self {
            name,
            model,
            description: description.over(None),
            system: system.over(None),
            tools: tools.unwrap_or_default(),
            execution_identity: identity.unwrap_or_default(),
            metadata: metadata::create(object.field("metadata"))?,
        };
        refuse_later_parts(&mut object)?;
        object.finish()?;
        Ok(create)
    }

    /// Makes version 1; refuses a model that no backend takes, or settings that it has not.
    pub fn resolve(self, id: AgentId, now: Micros, models: &dyn Models) -> Result<Agent, Problem> {
        Ok(Agent {
            id,
            archived_at: None,
            created_at: now,
            description: self.description,
            execution_identity: self.execution_identity,
            mcp_servers: Vec::new(),
            metadata: self.metadata,
            model: self.model.resolve(models)?,
            multiagent: None,
            name: self.name,
            skills: Vec::new(),
            system: self.system,
            tools: self.tools,
            updated_at: now,
            version: 1,
        })
    }
}

/// A checked request to update an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateAgent {
    /// The version the client thinks is the current one.
    version: Option<i64>,
    name: Option<String>,
    model: Option<ModelRequest>,
    description: Patch<String>,
    system: Patch<String>,
    tools: Patch<Tools>,
    execution_identity: Patch<ExecutionIdentity>,
    metadata: MetadataPatch,
}

impl UpdateAgent {
    /// Reads the body of `POST /v1/agents/{id}`.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::root(body).object()?;
        let version = object.field("version");
        let new_name = object.field("name").not_clearable()?;
        let model = object.field("model").not_clearable()?;
        let description = text(object.field("description"), limits::AGENT_DESCRIPTION)?;
        let system = text(object.field("system"), limits::SYSTEM)?;
        let tools = object.field("tools").patch();
        let identity = object.field("execution_identity").patch();
        let update = Self {
            version: version.read(|at| at.int(1..=i64::from(u32::MAX)))?,
            name: new_name.map(|at| name(&at)).transpose()?,
            model: model.map(|at| ModelRequest::parse(&at)).transpose()?,
            description,
            system,
            tools: tools.try_map(|at| Tools::parse(&at))?,
            execution_identity: identity.try_map(|at| ExecutionIdentity::parse(&at))?,
            metadata: metadata::patch(object.field("metadata"), EmptyValue::Kept)?,
        };
        refuse_later_parts(&mut object)?;
        object.finish()?;
        Ok(update)
    }

    /// Makes the next version of `current`, or `None` if the update changes nothing.
    ///
    /// Refuses an archived agent with 400 and a version that is not the current one with 409, the
    /// latter even if nothing would change.
    pub fn apply(
        self,
        current: &Agent,
        now: Micros,
        models: &dyn Models,
    ) -> Result<Option<Agent>, Problem> {
        self.check_state(current)?;
        let mut next = current.clone();
        if let Some(name) = self.name {
            next.name = name;
        }
        if let Some(model) = self.model {
            next.model = model.resolve_over(&current.model, models)?;
        }
        next.description = self.description.over(next.description);
        next.system = self.system.over(next.system);
        next.tools = self.tools.over(Some(next.tools)).unwrap_or_default();
        next.execution_identity = self
            .execution_identity
            .over(Some(next.execution_identity))
            .unwrap_or_default();
        next.metadata = self.metadata.apply(&next.metadata)?;
        if next == *current {
            return Ok(None);
        }
        next.version = current.version.saturating_add(1);
        next.updated_at = now;
        Ok(Some(next))
    }

    fn check_state(&self, current: &Agent) -> Result<(), Problem> {
        if current.archived_at.is_some() {
            return Err(Problem::invalid(format!(
                "agent `{}` is archived and cannot be changed",
                current.id
            )));
        }
        match self.version {
            Some(version) if version != i64::from(current.version) => Err(Problem::new(
                ErrorCode::Conflict,
                format!(
                    "version: agent `{}` is at version {}, not {version}",
                    current.id, current.version
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

fn name(at: &At<'_>) -> Result<String, Problem> {
    at.string(1..=limits::AGENT_NAME)
}

/// Reads a text that null and the empty text clear.
fn text(slot: Slot<'_>, max: usize) -> Result<Patch<String>, Problem> {
    Ok(match slot.patch().try_map(|at| at.text(0..=max))? {
        Patch::Keep => Patch::Keep,
        Patch::Clear | Patch::Set("") => Patch::Clear,
        Patch::Set(text) => Patch::Set(text.to_owned()),
    })
}

/// Refuses what this server does not have yet, in agents and in overrides.
pub(crate) fn refuse_later_parts(object: &mut Object<'_>) -> Result<(), Problem> {
    for name in ["mcp_servers", "skills", "multiagent"] {
        object.field(name).not_supported()?;
    }
    Ok(())
}
