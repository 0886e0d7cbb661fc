//! Models behind the egress process, which adds the key.

use std::{io, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use http::{HeaderMap, HeaderValue, header};
use http_body_util::{BodyExt as _, Full};
use hyper::Method;
use outlast_model::{
    Call, Error, Events, Model, RetryKind,
    upstream::{Forward, Forwarded, Part, Provider},
};
use tokio::time::timeout;

use super::{Remote, wire::UNREACHED};

/// The longest wait for an answer to begin: longer than the egress process waits itself.
const FIRST: Duration = Duration::from_secs(3_600);

/// The longest silence within an answer, for the same reason.
const IDLE: Duration = Duration::from_secs(3_600);

/// The longest answer; that process may have a smaller bound.
const MOST: u64 = 1 << 36;

/// Where models are asked.
pub(super) const MODELS: &str = "/models";

/// How long a refusal may be.
const WORDS: usize = 4_096;

#[async_trait]
impl Model for Remote {
    async fn stream(&self, call: Call) -> Result<Events, Error> {
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        let stream = HeaderValue::from_static("text/event-stream, application/json");
        headers.insert(header::ACCEPT, stream);
        let forward = Forward {
            method: Method::POST,
            part: Part::Messages,
            query: None,
            headers,
            body: Bytes::from(call.body.get().to_owned()),
        };
        let forwarded = self.forward(forward).await;
        // A process that is away is a model that is not reached.
        let forwarded = forwarded.map_err(|message| Error::Retry {
            kind: RetryKind::Failed,
            after: None,
            message,
        })?;
        forwarded.events(IDLE, MOST).await
    }
}

#[async_trait]
impl Provider for Remote {
    async fn forward(&self, forward: Forward) -> Result<Forwarded, String> {
        match timeout(FIRST, self.pass(forward)).await {
            Ok(Ok(passed)) => passed,
            Ok(Err(error)) => Err(self.0.asker.words(&error)),
            Err(_) => Err("the egress process did not answer".to_owned()),
        }
    }
}

impl Remote {
    async fn pass(&self, forward: Forward) -> io::Result<Result<Forwarded, String>> {
        let Forward {
            method,
            part,
            query,
            headers,
            body,
        } = forward;
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let path = format!("{MODELS}{}{query}", part.path());
        let body = Full::new(body).map_err(|never| match never {});
        let request = self
            .0
            .asker
            .request(method, &path)
            .body(body.boxed_unsync());
        let mut request = request.map_err(io::Error::other)?;
        request.headers_mut().extend(headers);
        let answer = self.0.asker.send(request).await?;
        let (parts, body) = answer.into_parts();
        let body = axum::body::Body::new(body);
        if parts.headers.contains_key(UNREACHED) {
            let words = axum::body::to_bytes(body, WORDS).await;
            let words = words.map_err(io::Error::other)?;
            return Ok(Err(String::from_utf8_lossy(&words).into_owned()));
        }
        let chunks = body.into_data_stream();
        let chunks = TryStreamExt::map_err(chunks, |error| error.to_string());
        Ok(Ok(Forwarded::new(parts.status, parts.headers, chunks)))
    }
}
