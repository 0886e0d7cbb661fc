//! What every request gets: an id, a span, figures, the form of errors, and a net for panics.

use std::panic::AssertUnwindSafe;

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures::FutureExt as _;
use http::{HeaderName, HeaderValue, Method};
use outlast_kernel::Kernel;
use outlast_protocol::{ErrorCode, id::RequestId};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::{
    failure::{self, Failure},
    metric_definitions as figures,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

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
    let route = matched.map_or("unmatched", MatchedPath::as_str).to_owned();
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
        response.headers_mut().insert(REQUEST_ID, value);
    }
    figures::handled(method, route, response.status().as_u16(), started.elapsed());
    if let Some(code) = failed {
        log(code, response.status().as_u16());
    }
    response
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
fn word(method: &Method) -> &'static str {
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
