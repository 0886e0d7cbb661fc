//! Threads of a session. For now every session has its primary thread alone.

use axum::extract::State;
use outlast_protocol::{
    Problem,
    id::{SessionId, ThreadId},
    limits,
    page::{self, List},
    session::{Status, Thread},
};
use serde::{Deserialize, Serialize};

use crate::{
    answer::{self, Answer},
    app::{App, Shared},
    events::Filter,
    extract::{Named, Params, Submission, unknown},
    sessions::STATUSES,
};

/// Where a page of threads ended.
#[derive(Debug, Deserialize, Serialize)]
struct Place {
    /// The last thread that was listed.
    after: ThreadId,
}

/// `GET /v1/sessions/{session_id}/threads`, oldest first.
pub(crate) async fn list(
    State(app): State<Shared>,
    Named(session): Named<SessionId>,
    Params(mut query): Params,
) -> Answer {
    let owner = session.to_string();
    let limit = query.limit(limits::EVENT_PAGE_MAX, limits::EVENT_PAGE_MAX)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let place = query
        .page()?
        .map(|text| page::decode::<Place>(List::Threads, &owner, &text));
    let statuses = query.words("statuses", STATUSES, Status::TABLE)?;
    query.finish()?;
    let after = place.transpose()?.map(|place| place.after);
    let threads = app.kernel.threads(session).await?;
    let from = threads
        .iter()
        .position(|thread| Some(thread.id) == after)
        .map_or(0, |at| at + 1);
    let wanted = |thread: &&Thread| statuses.is_empty() || statuses.contains(&thread.status);
    let mut rest = threads.iter().skip(from).filter(wanted);
    let shown: Vec<&Thread> = rest.by_ref().take(limit).collect();
    let last = rest
        .next()
        .and_then(|_| shown.last())
        .map(|thread| Place { after: thread.id });
    let next = last.map(|place| page::encode(List::Threads, &owner, &place));
    let data = shown
        .into_iter()
        .map(answer::text)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(answer::json(answer::page(&data, &[("next_page", next)])))
}

/// `GET /v1/sessions/{session_id}/threads/{thread_id}`.
pub(crate) async fn retrieve(
    State(app): State<Shared>,
    Named(session): Named<SessionId>,
    Named(thread): Named<ThreadId>,
    Params(query): Params,
) -> Answer {
    query.finish()?;
    answer::view(&app.kernel.thread(session, thread).await?)
}

/// `POST /v1/sessions/{session_id}/threads/{thread_id}/archive`.
pub(crate) async fn archive(
    State(app): State<Shared>,
    Named(session): Named<SessionId>,
    Named(thread): Named<ThreadId>,
    request: Submission,
) -> Answer {
    request.empty()?;
    app.thread_number(session, thread).await?;
    Err(Problem::invalid(format!(
        "thread `{thread}` is the primary thread, which ends with its session; archive session \
         `{session}` instead"
    ))
    .into())
}

/// `GET /v1/sessions/{session_id}/threads/{thread_id}/events`, oldest first.
pub(crate) async fn events(
    State(app): State<Shared>,
    Named(session): Named<SessionId>,
    Named(thread): Named<ThreadId>,
    Params(query): Params,
) -> Answer {
    let number = app.thread_number(session, thread).await?;
    app.events(session, number, query, Filter::none()).await
}

impl App {
    /// Returns the number of a thread in its session's log.
    pub(crate) async fn thread_number(
        &self,
        session: SessionId,
        thread: ThreadId,
    ) -> Result<u32, Problem> {
        let state = self.kernel.state(session).await?;
        let found = state.find(thread).map(|(number, _)| number);
        found.ok_or_else(|| unknown::<ThreadId>(thread))
    }
}
