//! Agents and their versions.

use axum::extract::State;
use outlast_protocol::{
    ErrorCode, Problem,
    agent::{Agent, CreateAgent, UpdateAgent},
    id::AgentId,
    limits,
    page::List,
    query::{Order, TimeRange},
};
use outlast_store::{ReadError, Resource, ResourceKind};

use crate::{
    answer::{self, Answer},
    app::{App, Shared},
    extract::{Named, Params, Submission},
    listing::Page,
    once::Form,
    plain,
};

/// `POST /v1/agents`.
pub(crate) async fn create(State(app): State<Shared>, request: Submission) -> Answer {
    let new = CreateAgent::parse(&request.body)?;
    let now = app.kernel.now();
    let agent = new.resolve(AgentId::mint(now, app.kernel.entropy()), now, &*app.models)?;
    let work = app.clone();
    let work = |ticket| async move { work.insert(&agent, ticket).await };
    app.once(request.attempt, Form::Stored, work).await
}

/// `GET /v1/agents`, newest first.
pub(crate) async fn list(State(app): State<Shared>, Params(mut query): Params) -> Answer {
    let gte = query.time("created_at[gte]")?;
    let lte = query.time("created_at[lte]")?;
    app.list::<Agent>(
        query,
        TimeRange {
            gte,
            lte,
            ..TimeRange::default()
        },
    )
    .await
}

/// `GET /v1/agents/{agent_id}`.
pub(crate) async fn retrieve(
    State(app): State<Shared>,
    Named(id): Named<AgentId>,
    Params(mut query): Params,
) -> Answer {
    let version = query.int("version", 1, u32::MAX)?;
    query.finish()?;
    answer::view(&app.agent(id, version, "version").await?)
}

/// `POST /v1/agents/{agent_id}`.
pub(crate) async fn update(
    State(app): State<Shared>,
    Named(id): Named<AgentId>,
    request: Submission,
) -> Answer {
    let change = UpdateAgent::parse(&request.body)?;
    let (work, now) = (app.clone(), app.kernel.now());
    let work = move |ticket| async move {
        let step = |current: &Agent| change.clone().apply(current, now, &*work.models);
        work.change(id, ticket, step).await
    };
    app.once(request.attempt, Form::Stored, work).await
}

/// `POST /v1/agents/{agent_id}/archive`; repeating it changes nothing.
///
/// It makes no version, but a revision: so an update that races with it is overtaken and refused.
/// That revision is the last one, and bears the number behind that of the last version.
pub(crate) async fn archive(
    State(app): State<Shared>,
    Named(id): Named<AgentId>,
    request: Submission,
) -> Answer {
    request.empty()?;
    let now = app.kernel.now();
    let step = |current: &Agent| {
        let next = || Agent {
            archived_at: Some(now),
            ..current.clone()
        };
        Ok(current.archived_at.is_none().then(next))
    };
    Ok(answer::json(app.change(id, None, step).await?))
}

/// `GET /v1/agents/{agent_id}/versions`, newest first.
pub(crate) async fn versions(
    State(app): State<Shared>,
    Named(id): Named<AgentId>,
    Params(mut query): Params,
) -> Answer {
    let (owner, bounds) = (id.to_string(), (limits::PAGE, limits::PAGE_MAX));
    let list = (List::AgentVersions, &*owner);
    let page = Page::read(&mut query, list, bounds, Order::Desc, &TimeRange::default())?;
    query.finish()?;
    let (_, newest) = app.newest::<Agent>(id).await?;
    let listed = page.after().and_then(|(_, version)| version.parse().ok());
    let newer = u64::from(newest.version).saturating_add(1);
    let before = Some(listed.unwrap_or(newer));
    let resources = app.kernel.resources();
    let found = resources
        .revisions(ResourceKind::Agent, &owner, before, page.limit)
        .await;
    let found = found.map_err(|fault| plain::read::<Agent>(&fault, id))?;
    let agents = found.items.iter().map(|item| dated(item, &newest));
    let agents = agents.collect::<Result<Vec<_>, _>>()?;
    let edge = |agent: &Agent| (agent.created_at, agent.version.to_string());
    let edges = agents.first().map(edge).zip(agents.last().map(edge));
    let (next, _) = page.cursors(edges, found.more);
    let data = agents
        .iter()
        .map(answer::text)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(answer::json(answer::page(&data, &[("next_page", next)])))
}

impl App {
    /// Returns an agent at its newest version, or at the one that `field` of a request names.
    pub(crate) async fn agent(
        &self,
        id: AgentId,
        version: Option<u32>,
        field: &str,
    ) -> Result<Agent, Problem> {
        let (_, newest) = self.newest::<Agent>(id).await?;
        let Some(version) = version.filter(|version| *version != newest.version) else {
            return Ok(newest);
        };
        let resources = self.kernel.resources();
        let revision = Some(u64::from(version));
        match resources
            .get(ResourceKind::Agent, &id.to_string(), revision)
            .await
        {
            Ok(found) => dated(&found, &newest),
            Err(ReadError::NotFound(_)) => Err(Problem::new(
                ErrorCode::NotFound,
                format!("{field}: agent `{id}` has no version {version}"),
            )),
            Err(fault) => Err(plain::failed(&fault)),
        }
    }
}

/// Returns a version as clients see it: archived when its agent is.
fn dated(version: &Resource, newest: &Agent) -> Result<Agent, Problem> {
    Ok(Agent {
        archived_at: newest.archived_at,
        ..plain::decode(version)?
    })
}
