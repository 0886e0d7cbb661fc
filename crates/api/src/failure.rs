//! Problems as responses.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderName, HeaderValue, StatusCode, header, response::Parts};
use outlast_protocol::{ErrorCode, Problem, error::Foreign, id::RequestId};
use outlast_store::Away;

/// Tells clients whether to send the same request again.
const X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Seconds after which a request that met a short shortage is worth repeating.
///
/// Small, because clients obey it without an upper bound.
const RETRY_AFTER: &str = "2";

/// What a handler refuses with; [`render`] gives it its body once the request id is at hand.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) Problem);

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = status(self.0.code.status()).into_response();
        response.extensions_mut().insert(self.0);
        response
    }
}

/// Gives a failed response the body and headers of the wire; others pass.
///
/// A failure that no handler made (the framework's own) gets the general words of its status.
pub(crate) fn render(response: Response, id: RequestId) -> (Response, Option<ErrorCode>) {
    if !response.status().is_client_error() && !response.status().is_server_error() {
        return (response, None);
    }
    if response.extensions().get::<Foreign>().is_some() {
        let code = general(response.status()).code;
        return (response, Some(code));
    }
    let (mut parts, _) = response.into_parts();
    let problem = parts.extensions.remove::<Problem>();
    let problem = problem.unwrap_or_else(|| general(parts.status));
    parts.status = status(problem.code.status());
    head(&mut parts, problem.code);
    let body = serde_json::to_string(&problem.body(&id.to_string())).unwrap_or_default();
    (
        Response::from_parts(parts, Body::from(body)),
        Some(problem.code),
    )
}

fn head(parts: &mut Parts, code: ErrorCode) {
    let headers = &mut parts.headers;
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    if let Some(retry) = code.is_retryable() {
        let word = if retry { "true" } else { "false" };
        headers.insert(X_SHOULD_RETRY, HeaderValue::from_static(word));
    }
    if code.is_passing() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
    }
}

fn general(status: StatusCode) -> Problem {
    let code = match status {
        StatusCode::NOT_FOUND => ErrorCode::NotFound,
        StatusCode::METHOD_NOT_ALLOWED => ErrorCode::MethodNotAllowed,
        StatusCode::PAYLOAD_TOO_LARGE => ErrorCode::RequestTooLarge,
        status if status.is_client_error() => ErrorCode::InvalidRequest,
        _ => ErrorCode::Internal,
    };
    Problem::new(
        code,
        status
            .canonical_reason()
            .unwrap_or("request failed")
            .to_lowercase(),
    )
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Returns what a client is told of a fault of our own; the cause goes to the log.
pub(crate) fn internal(cause: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%cause, "a request failed for a reason of our own: {cause}");
    Problem::new(
        ErrorCode::Internal,
        "internal server error; the log has the cause under this id",
    )
}

/// Returns what a client is told while there is as much of something as may be.
pub(crate) fn overloaded(what: &str) -> Problem {
    let words = format!("{what}; nothing was accepted");
    Problem::new(ErrorCode::Overloaded, words)
}

/// Returns what a client is told while as much waits for the store as may.
pub(crate) fn crowded() -> Problem {
    overloaded("too much work waits for the store")
}

/// Returns what a client is told while the store cannot be written or read.
pub(crate) fn unavailable(away: &Away) -> Problem {
    outlast_kernel::unavailable("the store", away)
}
