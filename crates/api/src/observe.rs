//! What every request gets: an id, a span, figures, the form of errors, and a net for panics.

use std::panic::AssertUnwindSafe;

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures::FutureExt as _;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use outlast_kernel::Kernel;
use outlast_protocol::{ErrorCode, Problem, error::Foreign, id::RequestId};
use tokio::time::{Duration, Instant};
use tracing::Instrument as _;

use crate::{
    failure::{self, Failure},
    metric_definitions as figures,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Where the id stands of a request whose answer has another server's.
const OWN_ID: HeaderName = HeaderName::from_static("outlast-request-id");

/// What paths count as that no route matched.
pub(crate) const UNMATCHED: &str = "unmatched";

/// The id of the request at hand, for those who answer late: streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Id(pub(crate) RequestId);

/// Handles a request from outside to outside.
pub(crate) async fn observe(
    State(kernel): State<Kernel>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = RequestId::mint(kernel.now(), kernel.entropy());
    request.extensions_mut().insert(Id(id));
    let matched = request.extensions().get::<MatchedPath>();
    // Paths of clients are without number; those that no route matched count as one.
    let route = matched.map_or(UNMATCHED, MatchedPath::as_str).to_owned();
    let method = word(request.method());
    let span = tracing::info_span!("request", request.id = %id, method, route);
    let started = Instant::now();
    let handled = AssertUnwindSafe(next.run(request)).catch_unwind();
    let response = handled.instrument(span.clone()).await;
    let _entered = span.entered();
    let response = response
        .unwrap_or_else(|_| Failure(failure::internal(&"a handler panicked")).into_response());
    let (mut response, failed) = failure::render(response, id);
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        let foreign = response.extensions().get::<Foreign>().is_some();
        let named = foreign && response.headers().contains_key(REQUEST_ID);
        let name = if named { OWN_ID } else { REQUEST_ID };
        response.headers_mut().insert(name, value);
    }
    figures::handled(method, route, response.status().as_u16(), started.elapsed());
    if let Some(code) = failed {
        log(code, response.status().as_u16());
    }
    response
}

/// An answer to what came in place of a request.
#[derive(Debug)]
pub struct Unread {
    /// What the answer carries beside what every answer does.
    pub headers: [(HeaderName, HeaderValue); 2],
    /// Its body.
    pub body: String,
}

/// Answers what no handler saw, because it could not be read as a request, in the form of all others.
pub fn unread(kernel: &Kernel, status: StatusCode) -> Unread {
    let id = RequestId::mint(kernel.now(), kernel.entropy());
    let _entered = tracing::info_span!("request", request.id = %id, route = UNMATCHED).entered();
    let words = match status {
        StatusCode::URI_TOO_LONG => "the address of the request is too long",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            "the head of the request is too long, or has too many fields"
        }
        _ => "this is not a request of HTTP/1.1",
    };
    let problem = Problem::invalid(words);
    figures::handled(
        "other",
        UNMATCHED.to_owned(),
        status.as_u16(),
        Duration::ZERO,
    );
    log(problem.code, status.as_u16());
    let id = id.to_string();
    let json = HeaderValue::from_static("application/json");
    // An id is of letters and digits.
    let named = HeaderValue::from_str(&id).unwrap_or_else(|_| HeaderValue::from_static(""));
    Unread {
        headers: [(header::CONTENT_TYPE, json), (REQUEST_ID, named)],
        body: serde_json::to_string(&problem.body(&id)).unwrap_or_default(),
    }
}

/// Writes one line per failed request; its words stay out, because they quote the client.
fn log(code: ErrorCode, status: u16) {
    if status >= 500 {
        tracing::error!(status, ?code, "request failed with {status}");
    } else {
        tracing::info!(status, ?code, "request refused with {status}");
    }
}

/// Returns the method as a label; what clients invent counts as one.
pub(crate) fn word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
