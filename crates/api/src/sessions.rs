//! Sessions.

use axum::extract::State;
use outlast_protocol::{
    ErrorCode, Problem,
    environment::Environment,
    id::{AgentId, SessionId, VaultId},
    limits,
    page::List,
    query::{Order, Query, TimeRange},
    session::{AgentRef, AgentSnapshot, CreateSession, Session, Status, UpdateSession},
    vault::Vault,
};
use outlast_session::body::Config;
use outlast_store::SessionQuery;

use crate::{
    answer::{self, Answer},
    app::{App, Shared},
    extract::{Caller, Discreet, Named, Params, Submission},
    listing::Page,
    once::{Form, Ticket},
};

/// Values of `statuses[]`: each status, a few times over.
pub(crate) const STATUSES: usize = 16;

/// `POST /v1/sessions`.
pub(crate) async fn create(State(app): State<Shared>, Discreet(request): Discreet) -> Answer {
    let new = CreateSession::parse(request.body())?;
    let (work, by) = (app.clone(), request.by());
    let work = move |ticket: Option<Ticket>| async move {
        let config = work.configure(&new).await?;
        // The kernel names the session; the store writes that name into the receipt.
        let unnamed = SessionId::mint(work.kernel.now(), work.kernel.entropy());
        let receipt = ticket.map(|ticket| ticket.records(unnamed));
        let mut draft = work.kernel.draft(config);
        draft.tokens = work.tokens(&draft, &new.resources.repositories).await?;
        let made = work.kernel.create(by, draft, &new.initial_events, receipt);
        let session = made.await?;
        answer::text(&session)
    };
    app.once(request.attempt(), Form::Session, work).await
}

/// `GET /v1/sessions`, in both directions.
pub(crate) async fn list(State(app): State<Shared>, Params(mut query): Params) -> Answer {
    let order = query.order(Order::Desc)?;
    let created = query.range("created_at")?;
    let bounds = (limits::PAGE, limits::EVENT_PAGE_MAX);
    let page = Page::read(&mut query, (List::Sessions, ""), bounds, order, &created)?;
    let Some(query) = filters(query, &page, &created)? else {
        let cursors = [("next_page", None), ("prev_page", None)];
        return Ok(answer::json(answer::page::<&str>(&[], &cursors)));
    };
    let (mut sessions, more) = app.kernel.sessions(&query).await?;
    page.arrange(&mut sessions);
    let edge = |session: &Session| (session.created_at, session.id.to_string());
    let (next, prev) = page.cursors(
        sessions.first().map(edge).zip(sessions.last().map(edge)),
        more,
    );
    let data = sessions
        .iter()
        .map(answer::text)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(answer::json(answer::page(
        &data,
        &[("next_page", next), ("prev_page", prev)],
    )))
}

/// `GET /v1/sessions/{session_id}`.
pub(crate) async fn retrieve(
    State(app): State<Shared>,
    Named(id): Named<SessionId>,
    Params(query): Params,
) -> Answer {
    query.finish()?;
    answer::view(&app.kernel.session(id).await?)
}

/// `POST /v1/sessions/{session_id}`.
pub(crate) async fn update(
    State(app): State<Shared>,
    Named(id): Named<SessionId>,
    request: Submission,
) -> Answer {
    let change = UpdateSession::parse(&request.body)?;
    answer::view(&app.kernel.update(request.by, id, &change).await?)
}

/// `POST /v1/sessions/{session_id}/archive`; repeating it changes nothing.
pub(crate) async fn archive(
    State(app): State<Shared>,
    Named(id): Named<SessionId>,
    request: Submission,
) -> Answer {
    request.empty()?;
    answer::view(&app.kernel.archive(request.by, id).await?)
}

/// `DELETE /v1/sessions/{session_id}`.
pub(crate) async fn delete(
    State(app): State<Shared>,
    Named(id): Named<SessionId>,
    Caller(by): Caller,
    request: Submission,
) -> Answer {
    request.empty()?;
    app.kernel.delete(by, id).await?;
    Ok(answer::json(answer::deleted(&id, "session_deleted")))
}

impl App {
    /// Resolves what a new session runs with: a copy of its agent, in an environment that is there.
    async fn configure(&self, new: &CreateSession) -> Result<Config, Problem> {
        let agent = self.copy(&new.agent).await?;
        let found = self.newest::<Environment>(new.environment_id).await;
        let (_, environment) = found.map_err(|problem| named(problem, "environment_id"))?;
        if environment.archived_at.is_some() {
            return Err(Problem::new(
                ErrorCode::EnvironmentArchived,
                format!(
                    "environment_id: environment `{}` is archived",
                    environment.id
                ),
            ));
        }
        let (title, metadata) = (new.title.clone(), new.metadata.clone());
        let files = new.resources.files.iter();
        let repositories = new.resources.repositories.iter();
        Ok(Config {
            agent,
            environment_id: environment.id,
            title,
            metadata,
            resources: files.map(|add| self.kernel.mount_of(add)).collect(),
            repositories: repositories
                .map(|add| self.kernel.repository_of(add))
                .collect(),
            vault_ids: self.vaults(&new.vault_ids).await?,
        })
    }

    /// Refuses vaults that are not there, or archived.
    async fn vaults(&self, ids: &[VaultId]) -> Result<Vec<VaultId>, Problem> {
        for (place, id) in ids.iter().enumerate() {
            let found = self.newest::<Vault>(*id).await;
            let (_, vault) =
                found.map_err(|problem| named(problem, &format!("vault_ids.{place}")))?;
            if vault.archived_at.is_some() {
                return Err(Problem::invalid(format!(
                    "vault_ids.{place}: vault `{id}` is archived and takes no new sessions"
                )));
            }
        }
        Ok(ids.to_vec())
    }

    async fn copy(&self, wanted: &AgentRef) -> Result<AgentSnapshot, Problem> {
        let agent = self
            .agent(wanted.id, wanted.version, "agent.version")
            .await?;
        if agent.archived_at.is_some() {
            return Err(Problem::invalid(format!(
                "agent: agent `{}` is archived and takes no new sessions",
                agent.id
            )));
        }
        AgentSnapshot::from_agent(&agent, &wanted.overrides, &*self.models)
    }
}

/// Puts the field in front of the words about an object that it names and that is not there.
fn named(problem: Problem, field: &str) -> Problem {
    if problem.code.status() != 404 || problem.message.starts_with(field) {
        return problem;
    }
    Problem::new(problem.code, format!("{field}: {}", problem.message))
}

/// Reads the filters; `None` if no session of this server can match them.
fn filters(
    mut query: Query,
    page: &Page,
    created: &TimeRange,
) -> Result<Option<SessionQuery>, Problem> {
    let agent = query.text("agent_id")?;
    let agent_version = query.int("agent_version", 1, u32::MAX)?;
    let statuses = query.words("statuses", STATUSES, Status::TABLE)?;
    // No session has either yet.
    let others = [query.text("deployment_id")?, query.text("memory_store_id")?];
    let archived = query.flag("include_archived")?;
    query.finish()?;
    if agent.is_none() && agent_version.is_some() {
        return Err(Problem::invalid(
            "agent_version: is only allowed together with `agent_id`",
        ));
    }
    // An id of another form names nothing, like any id that was never given out.
    let known: Option<AgentId> = agent.as_deref().and_then(AgentId::parse);
    if (agent.is_some() && known.is_none()) || others.iter().any(Option::is_some) {
        return Ok(None);
    }
    Ok(Some(SessionQuery {
        agent: known,
        agent_version: agent_version.map(u64::from),
        statuses,
        created_gt: created.gt,
        created_gte: created.gte,
        created_lt: created.lt,
        created_lte: created.lte,
        archived,
        order: page.way(),
        after: page
            .after()
            .and_then(|(at, id)| Some((at, SessionId::parse(&id)?))),
        limit: page.limit,
    }))
}
