//! What agents and environments have in common: whole objects under a revision.

use std::fmt::Display;

use outlast_protocol::{
    ErrorCode, Micros, Problem,
    agent::Agent,
    credential::Credential,
    environment::Environment,
    id::{AgentId, CredentialId, EnvironmentId, VaultId},
    limits,
    page::List,
    query::{Order, Query, TimeRange},
    vault::Vault,
};
use outlast_store::{Away, ReadError, Resource, ResourceKind, ResourceQuery, WriteError};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    answer::{self, Answer},
    app::App,
    extract::{Noun, unknown},
    failure,
    listing::Page,
    once::Ticket,
};

/// Tries of a change that others overtake; of those who race one wins every round.
pub(crate) const TRIES: usize = 100;

/// An object that is stored whole.
pub(crate) trait Plain: Serialize + DeserializeOwned + Sync {
    /// What names it.
    type Id: Noun + Display + Copy + Send + Sync;
    /// What the store calls it.
    const KIND: ResourceKind;
    /// The list of all of them.
    const LIST: List;
    /// What stands in its row beside the object.
    fn key(&self) -> (Self::Id, Micros, Option<Micros>);
    /// What it belongs to, and what of that only one active object may have.
    fn place(&self) -> (Option<String>, Option<String>) {
        (None, None)
    }
}

impl Plain for Agent {
    type Id = AgentId;
    const KIND: ResourceKind = ResourceKind::Agent;
    const LIST: List = List::Agents;

    fn key(&self) -> (AgentId, Micros, Option<Micros>) {
        (self.id, self.created_at, self.archived_at)
    }
}

impl Plain for Environment {
    type Id = EnvironmentId;
    const KIND: ResourceKind = ResourceKind::Environment;
    const LIST: List = List::Environments;

    fn key(&self) -> (EnvironmentId, Micros, Option<Micros>) {
        (self.id, self.created_at, self.archived_at)
    }
}

impl Plain for Vault {
    type Id = VaultId;
    const KIND: ResourceKind = ResourceKind::Vault;
    const LIST: List = List::Vaults;

    fn key(&self) -> (VaultId, Micros, Option<Micros>) {
        (self.id, self.created_at, self.archived_at)
    }
}

impl Plain for Credential {
    type Id = CredentialId;
    const KIND: ResourceKind = ResourceKind::Credential;
    const LIST: List = List::Credentials;

    fn key(&self) -> (CredentialId, Micros, Option<Micros>) {
        (self.id, self.created_at, self.archived_at)
    }

    fn place(&self) -> (Option<String>, Option<String>) {
        (Some(self.vault_id.to_string()), Some(self.auth.key()))
    }
}

impl App {
    /// Stores a new object; returns its text.
    pub(crate) async fn insert<T: Plain>(
        &self,
        new: &T,
        ticket: Option<Ticket>,
    ) -> Result<String, Problem> {
        let text = answer::text(new)?;
        let receipt = ticket.map(|ticket| ticket.body(&text));
        let done = self
            .kernel
            .resources()
            .insert(resource(new, 1)?, receipt)
            .await;
        done.map_err(|fault| write::<T>(&fault))?;
        Ok(text)
    }

    /// Returns an object and the revision it is at.
    pub(crate) async fn newest<T: Plain>(&self, id: T::Id) -> Result<(u64, T), Problem> {
        let found = self
            .kernel
            .resources()
            .get(T::KIND, &id.to_string(), None)
            .await;
        let found = found.map_err(|fault| read::<T>(&fault, id))?;
        Ok((found.revision, decode(&found)?))
    }

    /// Changes an object as it is by then; `step` is asked anew when others were faster.
    ///
    /// A step of nothing writes nothing. Returns the text of the object afterwards.
    pub(crate) async fn change<T: Plain>(
        &self,
        id: T::Id,
        ticket: Option<Ticket>,
        step: impl Fn(&T) -> Result<Option<T>, Problem> + Send + Sync,
    ) -> Result<String, Problem> {
        let resources = self.kernel.resources();
        for _ in 0..TRIES {
            let (revision, current) = self.newest::<T>(id).await?;
            let Some(next) = step(&current)? else {
                return answer::text(&current);
            };
            let text = answer::text(&next)?;
            let receipt = ticket.map(|ticket| ticket.body(&text));
            let next = resource(&next, revision.saturating_add(1))?;
            match resources.replace(next, receipt).await {
                Ok(()) => return Ok(text),
                Err(WriteError::Moved { .. }) => {}
                Err(fault) => return Err(write::<T>(&fault)),
            }
        }
        Err(contended::<T>(id))
    }

    /// Lists objects, newest first.
    pub(crate) async fn list<T: Plain>(&self, query: Query, created: TimeRange) -> Answer {
        let (items, next) = self.page::<T>(query, created, None).await?;
        let data: Vec<&str> = items.iter().map(|item| item.body.get()).collect();
        Ok(answer::json(answer::page(&data, &[("next_page", next)])))
    }

    /// Reads a page of objects, newest first, of all or of one parent; returns the cursor of the next.
    pub(crate) async fn page<T: Plain>(
        &self,
        mut query: Query,
        created: TimeRange,
        parent: Option<String>,
    ) -> Result<(Vec<Resource>, Option<String>), Problem> {
        let bounds = (limits::PAGE, limits::PAGE_MAX);
        let list = (T::LIST, parent.as_deref().unwrap_or_default());
        let page = Page::read(&mut query, list, bounds, Order::Desc, &created)?;
        let archived = query.flag("include_archived")?;
        query.finish()?;
        let query = ResourceQuery {
            kind: T::KIND,
            parent,
            created_gte: created.gte,
            created_lte: created.lte,
            archived,
            order: page.way(),
            after: page.after(),
            limit: page.limit,
        };
        let found = self.kernel.resources().list(&query).await;
        let found = found.map_err(|fault| failed(&fault))?;
        let edge = |item: &Resource| (item.created_at, item.id.clone());
        let edges = found
            .items
            .first()
            .map(edge)
            .zip(found.items.last().map(edge));
        let (next, _) = page.cursors(edges, found.more);
        Ok((found.items, next))
    }
}

/// Reads a stored object.
pub(crate) fn decode<T: DeserializeOwned>(stored: &Resource) -> Result<T, Problem> {
    serde_json::from_str(stored.body.get()).map_err(|fault| failure::internal(&fault))
}

/// Makes what is stored of an object.
pub(crate) fn resource<T: Plain>(object: &T, revision: u64) -> Result<Resource, Problem> {
    let (id, created_at, archived_at) = object.key();
    let body =
        serde_json::value::to_raw_value(object).map_err(|fault| failure::internal(&fault))?;
    let (kind, id) = (T::KIND, id.to_string());
    let (parent, unique_key) = object.place();
    Ok(Resource {
        kind,
        id,
        revision,
        created_at,
        archived_at,
        body: body.into(),
        parent,
        unique_key,
    })
}

/// Returns what a client is told of an object that others change all the time.
pub(crate) fn contended<T: Plain>(id: T::Id) -> Problem {
    let words = format!(
        "{} `{id}` is being changed by others; try again",
        T::Id::NAME
    );
    Problem::new(ErrorCode::Overloaded, words)
}

/// Returns what a client is told of a failed read of one object.
pub(crate) fn read<T: Plain>(fault: &ReadError, id: T::Id) -> Problem {
    match fault {
        ReadError::NotFound(_) => unknown::<T::Id>(id),
        ReadError::Unreadable(_) | ReadError::Overloaded | ReadError::Unavailable(_) => {
            failed(fault)
        }
    }
}

/// Returns what a client is told of a failed read.
pub(crate) fn failed(fault: &ReadError) -> Problem {
    match fault {
        ReadError::Overloaded => failure::crowded(),
        ReadError::Unavailable(away) => failure::unavailable(away),
        ReadError::NotFound(_) | ReadError::Unreadable(_) => failure::internal(fault),
    }
}

/// Returns what a client is told of a failed write.
pub(crate) fn write<T: Plain>(fault: &WriteError) -> Problem {
    match fault {
        WriteError::NotFound(id) => unknown::<T::Id>(id),
        WriteError::Moved { .. } | WriteError::Taken(_) => {
            Problem::new(ErrorCode::Conflict, fault.to_string())
        }
        WriteError::Archived(_) | WriteError::Full(_) => Problem::invalid(fault.to_string()),
        WriteError::Referenced(id) => Problem::invalid(format!(
            "{} `{id}` is used by a session; delete its sessions first, or archive it",
            T::Id::NAME
        )),
        WriteError::Overloaded => failure::crowded(),
        WriteError::Unavailable(away) => failure::unavailable(away),
        WriteError::Answered => failure::unavailable(&Away::other(fault)),
    }
}
