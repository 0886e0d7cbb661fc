//! An answer of the provider, as the caller gets it.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use http::{HeaderMap, StatusCode, header};
use outlast_model::upstream::Forwarded;
use outlast_protocol::{ErrorCode, Problem, error::Foreign};
use serde::Deserialize;

/// Headers of an answer that go back, beside the API's own.
const BACK: [&str; 7] = [
    "cache-control",
    "content-encoding",
    "content-type",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
];

/// What the API's own headers begin with.
const OWN: &str = "anthropic-";

/// The one of them that is about this server's account.
const ACCOUNT: &str = "anthropic-organization-id";

/// The most of a refusal that is read, in bytes.
const REFUSAL: usize = 1024 * 1024;

/// What a request came to that no provider answered.
#[derive(Debug)]
pub(crate) struct Refused(Problem);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for Refused {
    /// Leaves the body to whoever gives answers their ids.
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.status());
        let mut response = status
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            .into_response();
        response.extensions_mut().insert(self.0);
        response
    }
}

/// An error in the form of the API.
#[derive(Deserialize)]
struct Formed<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(rename = "error")]
    _error: serde::de::IgnoredAny,
}

/// Hands an answer on: a success as it comes, a refusal once it was looked at.
pub(super) async fn respond(forwarded: Forwarded) -> Result<Response, Refused> {
    let Forwarded {
        status,
        headers,
        body,
    } = forwarded;
    if status.is_success() {
        return Ok(as_it_is(status, &headers, Body::from_stream(body.map(io))));
    }
    if status == StatusCode::UNAUTHORIZED {
        // The caller's key is good, so this is not what the caller should read.
        let words =
            "the model's provider does not take this server's key; its operator has to mend that";
        tracing::error!("the model's provider does not take the key of this server");
        return Err(Problem::new(ErrorCode::Unavailable, words).into());
    }
    let body = head(body).await;
    let formed = serde_json::from_slice::<Formed<'_>>(&body);
    if formed.is_ok_and(|formed| formed.kind == "error") {
        return Ok(as_it_is(status, &headers, Body::from(body)));
    }
    let words = format!(
        "the model's provider answered {} without a reason",
        status.as_u16()
    );
    Err(Problem::new(code(status), words).into())
}

fn as_it_is(status: StatusCode, headers: &HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    for (name, value) in headers {
        let word = name.as_str();
        if BACK.contains(&word) || (word.starts_with(OWN) && word != ACCOUNT) {
            response.headers_mut().append(name.clone(), value.clone());
        }
    }
    let kind = header::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .entry(header::CONTENT_TYPE)
        .or_insert(kind);
    response.extensions_mut().insert(Foreign);
    response
}

fn io(chunk: Result<Bytes, String>) -> Result<Bytes, std::io::Error> {
    chunk.map_err(std::io::Error::other)
}

/// Reads the beginning of a body, as far as it comes.
async fn head(mut body: futures::stream::BoxStream<'static, Result<Bytes, String>>) -> Bytes {
    let mut bytes = BytesMut::new();
    while let Some(Ok(chunk)) = body.next().await {
        bytes.extend_from_slice(&chunk);
        if bytes.len() >= REFUSAL {
            bytes.truncate(REFUSAL);
            break;
        }
    }
    bytes.freeze()
}

/// Returns the code of a refusal that says nothing itself.
fn code(status: StatusCode) -> ErrorCode {
    match status.as_u16() {
        403 => ErrorCode::Permission,
        404 => ErrorCode::NotFound,
        413 => ErrorCode::RequestTooLarge,
        429 => ErrorCode::RateLimited,
        529 => ErrorCode::Overloaded,
        400..500 => ErrorCode::InvalidRequest,
        _ => ErrorCode::Unavailable,
    }
}
