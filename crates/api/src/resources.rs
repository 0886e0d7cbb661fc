//! What is mounted in a session.

use axum::extract::State;
use outlast_protocol::{
    Problem,
    id::{ResourceId, SessionId},
    limits,
    page::{self, List},
    session::{AddFile, Resource, parse_rotation},
};
use outlast_session::{body::Repository, view};
use serde::{Deserialize, Serialize};

use crate::{
    answer::{self, Answer},
    app::{App, Shared},
    extract::{Caller, Confidential, Named, Params, Submission, unknown},
    once::{Form, Ticket},
};

/// Where a page of resources ended: behind so many, the last of which was this.
#[derive(Debug, Deserialize, Serialize)]
struct Place {
    count: usize,
    last: ResourceId,
}

/// `POST /v1/sessions/{session_id}/resources`.
pub(crate) async fn add(
    State(app): State<Shared>,
    Named(session): Named<SessionId>,
    request: Submission,
) -> Answer {
    let add = AddFile::parse(&request.body)?;
    let (work, by) = (app.clone(), request.by);
    let work = move |ticket: Option<Ticket>| async move {
        let mounted = work.kernel.mount_of(&add);
        let text = answer::text(&view::resource(&mounted))?;
        let receipt = ticket.map(|ticket| ticket.body(&text));
        work.kernel.mount(by, session, mounted, receipt).await?;
        Ok(text)
    };
    app.once(request.attempt, Form::Stored, work).await
}

/// `GET /v1/sessions/{session_id}/resources`, in the order they came; all of them unless limited.
pub(crate) async fn list(
    State(app): State<Shared>,
    Named(session): Named<SessionId>,
    Params(mut query): Params,
) -> Answer {
    let limit = query.limit(limits::EVENT_PAGE_MAX, limits::EVENT_PAGE_MAX)?;
    let owner = session.to_string();
    let place = query
        .page()?
        .map(|text| page::decode::<Place>(List::Resources, &owner, &text))
        .transpose()?;
    query.finish()?;
    let all = app.kernel.mounted(session).await?;
    let from = place.map_or(0, |place| {
        let last = all.iter().position(|resource| resource.id() == place.last);
        last.map_or(place.count, |last| last + 1)
    });
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let shown: Vec<_> = all.iter().skip(from).take(limit).collect();
    let count = from.saturating_add(shown.len());
    let place = shown.last().map(|resource| Place {
        count,
        last: resource.id(),
    });
    let next = place.filter(|_| count < all.len());
    let next = next.map(|place| page::encode(List::Resources, &owner, &place));
    let data = shown.iter().map(answer::text);
    let data = data.collect::<Result<Vec<_>, _>>()?;
    Ok(answer::json(answer::page(&data, &[("next_page", next)])))
}

/// `GET /v1/sessions/{session_id}/resources/{resource_id}`.
pub(crate) async fn retrieve(
    State(app): State<Shared>,
    Named(session): Named<SessionId>,
    Named(id): Named<ResourceId>,
    Params(query): Params,
) -> Answer {
    query.finish()?;
    answer::view(&app.resource(session, id).await?)
}

/// `POST /v1/sessions/{session_id}/resources/{resource_id}`: another token of a repository; nothing of a
/// file can be changed.
pub(crate) async fn update(
    State(app): State<Shared>,
    Named(session): Named<SessionId>,
    Named(id): Named<ResourceId>,
    request: Confidential,
) -> Answer {
    let Resource::Repository(_) = app.resource(session, id).await? else {
        return Err(refused(id).into());
    };
    let token = parse_rotation(request.body())?;
    let (sealer, token) = (&app, &token);
    let seal = move |repository: Repository, revision| async move {
        let sealed = sealer.seal_token(session, &repository, revision, token);
        sealed.await
    };
    let rotated = app.kernel.rotate(request.by(), session, id, seal);
    rotated.await?;
    app.vault.outdate().await;
    answer::view(&app.resource(session, id).await?)
}

/// Refuses a change of what cannot be changed.
fn refused(id: ResourceId) -> Problem {
    Problem::invalid(format!(
        "resource `{id}` is a file and cannot be updated, only a `github_repository` can; delete it \
         and add another"
    ))
}

/// `DELETE /v1/sessions/{session_id}/resources/{resource_id}`.
pub(crate) async fn delete(
    State(app): State<Shared>,
    Named(session): Named<SessionId>,
    Named(id): Named<ResourceId>,
    Caller(by): Caller,
    request: Submission,
) -> Answer {
    request.empty()?;
    app.kernel.unmount(by, session, id).await?;
    Ok(answer::json(answer::deleted(
        &id,
        "session_resource_deleted",
    )))
}

impl App {
    async fn resource(&self, session: SessionId, id: ResourceId) -> Result<Resource, Problem> {
        let all = self.kernel.mounted(session).await?;
        let mut all = all.into_iter();
        all.find(|resource| resource.id() == id)
            .ok_or_else(|| unknown::<ResourceId>(id))
    }
}
