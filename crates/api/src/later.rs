//! Paths of later parts of the API: a clear word instead of a bare 404.

use axum::{
    Router,
    extract::Request,
    response::{IntoResponse as _, Response},
    routing::any,
};
use outlast_protocol::{ErrorCode, Problem};

use crate::{app::Shared, failure::Failure};

/// Every path of the API that this server does not answer yet, with the name of its part.
const PARTS: &[(&str, &str)] = &[
    ("/v1/deployment_runs", "deployments"),
    ("/v1/deployments", "deployments"),
    ("/v1/dreams", "dreams"),
    (
        "/v1/environments/{environment_id}/work",
        "self-hosted environments",
    ),
    ("/v1/memory_stores", "memory stores"),
    ("/v1/skills", "skills"),
    ("/v1/tunnels", "tunnels"),
    ("/v1/user_profiles", "user profiles"),
    ("/v1/webhooks", "webhooks"),
];

/// Routes all of them, and all below them.
pub(crate) fn routes() -> Router<Shared> {
    PARTS.iter().fold(Router::new(), |router, (path, part)| {
        let missing = move || async move { missing(part) };
        router
            .route(path, any(missing))
            .route(&format!("{path}/{{*rest}}"), any(missing))
    })
}

fn missing(part: &str) -> Response {
    let words = format!("not_supported: this server does not have {part} yet");
    Failure(Problem::new(ErrorCode::PathNotSupported, words)).into_response()
}

/// Answers a path that the API does not have.
pub(crate) async fn not_found(request: Request) -> Failure {
    let path: String = request.uri().path().chars().take(128).collect();
    Failure(Problem::not_found(format_args!("path `{path}`")))
}

/// Answers a method that a path does not have.
pub(crate) async fn method_not_allowed(request: Request) -> Failure {
    let path: String = request.uri().path().chars().take(128).collect();
    let words = format!("method {} is not allowed on `{path}`", request.method());
    Failure(Problem::new(ErrorCode::MethodNotAllowed, words))
}
