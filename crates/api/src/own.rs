//! What Outlast adds to the API, under `/outlast/v1`: for operators.

use axum::{
    Router,
    extract::State,
    routing::{get, post},
};
use outlast_protocol::{
    deadlines::UpdateDeadlines, id::SessionId, limits, redaction::RedactSession,
};

use crate::{
    answer::{self, Answer},
    app::Shared,
    extract::{Named, Params, Submission},
    master_keys,
};

/// Routes all of it.
pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/outlast/v1/diagnosis", get(server))
        .route(
            "/outlast/v1/sessions/{session_id}/diagnosis",
            get(diagnosis),
        )
        .route("/outlast/v1/sessions/{session_id}/outline", get(outline))
        .route(
            "/outlast/v1/sessions/{session_id}/deadlines",
            get(deadlines).put(set_deadlines),
        )
        .route("/outlast/v1/sessions/{session_id}/redact", post(redact))
        .route("/outlast/v1/sessions/{session_id}/wake", post(wake))
        .route("/outlast/v1/vault", get(master_keys::list))
        .route(
            "/outlast/v1/vault/rotate-master-key",
            post(master_keys::rotate),
        )
}

/// `GET /outlast/v1/diagnosis`: what this process does, and which sessions are unfinished.
async fn server(State(app): State<Shared>, Params(query): Params) -> Answer {
    query.finish()?;
    let mut found = app.kernel.diagnose_server().await?;
    found.vault = app.vault.trouble();
    answer::view(&found)
}

/// `GET /outlast/v1/sessions/{session_id}/diagnosis`: what it waits for, and what went wrong last.
async fn diagnosis(
    State(app): State<Shared>,
    Named(id): Named<SessionId>,
    Params(query): Params,
) -> Answer {
    query.finish()?;
    answer::view(&app.kernel.diagnose(id).await?)
}

/// `GET /outlast/v1/sessions/{session_id}/outline`: the newest records without their bodies.
async fn outline(
    State(app): State<Shared>,
    Named(id): Named<SessionId>,
    Params(mut query): Params,
) -> Answer {
    let limit = query.limit(limits::PAGE, limits::EVENT_PAGE_MAX)?;
    query.finish()?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    answer::view(&app.kernel.outline(id, limit).await?)
}

/// `POST /outlast/v1/sessions/{session_id}/wake`: starts a brain on whatever wants one.
async fn wake(
    State(app): State<Shared>,
    Named(id): Named<SessionId>,
    request: Submission,
) -> Answer {
    request.empty()?;
    answer::view(&app.kernel.wake(id).await?)
}

/// `POST /outlast/v1/sessions/{session_id}/redact`: erases what events say; repeating it changes
/// nothing.
async fn redact(
    State(app): State<Shared>,
    Named(id): Named<SessionId>,
    request: Submission,
) -> Answer {
    let wish = RedactSession::parse(&request.body)?;
    answer::view(&app.kernel.redact(request.by, id, &wish).await?)
}

/// `GET /outlast/v1/sessions/{session_id}/deadlines`: what holds, and what runs out next.
async fn deadlines(
    State(app): State<Shared>,
    Named(id): Named<SessionId>,
    Params(query): Params,
) -> Answer {
    query.finish()?;
    answer::view(&app.kernel.deadlines(id).await?)
}

/// `PUT /outlast/v1/sessions/{session_id}/deadlines`: a number sets, null removes, what is absent
/// stays.
async fn set_deadlines(
    State(app): State<Shared>,
    Named(id): Named<SessionId>,
    request: Submission,
) -> Answer {
    let change = UpdateDeadlines::parse(&request.body)?;
    answer::view(&app.kernel.set_deadlines(request.by, id, change).await?)
}
