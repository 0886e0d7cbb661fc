//! Environments.

use axum::extract::State;
use outlast_protocol::{
    environment::{CreateEnvironment, Environment, UpdateEnvironment},
    id::EnvironmentId,
    query::TimeRange,
};
use outlast_store::ResourceKind;

use crate::{
    answer::{self, Answer},
    app::Shared,
    extract::{Named, Params, Submission},
    once::Form,
    plain,
};

/// `POST /v1/environments`.
pub(crate) async fn create(State(app): State<Shared>, request: Submission) -> Answer {
    let new = CreateEnvironment::parse(&request.body)?;
    let now = app.kernel.now();
    let environment = new.resolve(EnvironmentId::mint(now, app.kernel.entropy()), now);
    app.kernel.check_image(&environment.metadata)?;
    app.kernel.check_packages(&environment)?;
    let work = app.clone();
    let work = |ticket| async move { work.insert(&environment, ticket).await };
    app.once(request.attempt, Form::Stored, work).await
}

/// `GET /v1/environments`, newest first.
pub(crate) async fn list(State(app): State<Shared>, Params(query): Params) -> Answer {
    app.list::<Environment>(query, TimeRange::default()).await
}

/// `GET /v1/environments/{environment_id}`.
pub(crate) async fn retrieve(
    State(app): State<Shared>,
    Named(id): Named<EnvironmentId>,
    Params(query): Params,
) -> Answer {
    query.finish()?;
    answer::view(&app.newest::<Environment>(id).await?.1)
}

/// `POST /v1/environments/{environment_id}`.
pub(crate) async fn update(
    State(app): State<Shared>,
    Named(id): Named<EnvironmentId>,
    request: Submission,
) -> Answer {
    let change = UpdateEnvironment::parse(&request.body)?;
    let (work, now) = (app.clone(), app.kernel.now());
    let work = move |ticket| async move {
        let step = |current: &Environment| {
            let next = change.clone().apply(current, now)?;
            if let Some(next) = &next {
                work.kernel.check_image(&next.metadata)?;
                work.kernel.check_packages(next)?;
            }
            Ok(next)
        };
        work.change(id, ticket, step).await
    };
    app.once(request.attempt, Form::Stored, work).await
}

/// `POST /v1/environments/{environment_id}/archive`; repeating it changes nothing.
pub(crate) async fn archive(
    State(app): State<Shared>,
    Named(id): Named<EnvironmentId>,
    request: Submission,
) -> Answer {
    request.empty()?;
    let now = app.kernel.now();
    let step = |current: &Environment| {
        let next = || Environment {
            archived_at: Some(now),
            updated_at: now,
            ..current.clone()
        };
        Ok(current.archived_at.is_none().then(next))
    };
    Ok(answer::json(app.change(id, None, step).await?))
}

/// `DELETE /v1/environments/{environment_id}`; refused while a session names it.
pub(crate) async fn delete(
    State(app): State<Shared>,
    Named(id): Named<EnvironmentId>,
    request: Submission,
) -> Answer {
    request.empty()?;
    let removed = app
        .kernel
        .resources()
        .remove(ResourceKind::Environment, &id.to_string())
        .await;
    removed.map_err(|fault| plain::write::<Environment>(&fault))?;
    Ok(answer::json(answer::deleted(&id, "environment_deleted")))
}
