//! What an answer to a request for a stream says.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::time::timeout;

use super::Forwarded;
use crate::sse::{self, Bounds, Broken};
use crate::{Error, Events, Failure, retry_after};

/// The most of an error body that is read, in bytes.
const ERROR_BODY: usize = 64 * 1024;

impl Forwarded {
    /// Reads it as the stream that was asked for; `idle` is the longest silence within it, `bytes` its
    /// longest length.
    ///
    /// # Errors
    ///
    /// What was said instead.
    pub async fn events(self, idle: Duration, bytes: u64) -> Result<Events, Error> {
        let Self {
            status,
            headers,
            body,
        } = self;
        if status.is_success() && is_stream(&headers) {
            let bounds = Bounds { idle, bytes };
            return Ok(Box::pin(sse::events(
                body.map_err(Broken::Connection),
                bounds,
            )));
        }
        let body = timeout(idle, head(body)).await.unwrap_or_default();
        Err(refusal(status, &headers, &body, str::to_owned))
    }
}

/// Says what is wrong with an answer that is no stream.
pub(super) fn refusal(
    status: StatusCode,
    headers: &HeaderMap,
    body: &str,
    scrub: impl Fn(&str) -> String,
) -> Error {
    let should_retry = match headers.get("x-should-retry").map(HeaderValue::as_bytes) {
        Some(b"true") => Some(true),
        Some(b"false") => Some(false),
        Some(_) | None => None,
    };
    let said = Failure::from_body(body);
    let streamless = status.is_success() && said.kind.is_none();
    Failure {
        status: (!status.is_success()).then_some(status.as_u16()),
        after: retry_after::read(headers),
        should_retry,
        message: if streamless {
            "the model's provider answered without a stream".to_owned()
        } else {
            scrub(&said.message)
        },
        kind: said.kind,
    }
    .classify()
}

/// Tells whether the answer is a stream of events; one that does not say is taken for one.
pub(super) fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_none_or(|kind| kind.to_ascii_lowercase().starts_with(b"text/event-stream"))
}

/// Reads the beginning of a body as text, as far as it comes.
pub(super) async fn head<E>(chunks: impl Stream<Item = Result<Bytes, E>>) -> String {
    let mut bytes = Vec::new();
    let mut chunks = std::pin::pin!(chunks);
    while let Some(Ok(chunk)) = chunks.next().await {
        bytes.extend_from_slice(&chunk);
        if bytes.len() >= ERROR_BODY {
            bytes.truncate(ERROR_BODY);
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
