//! Requests of others, passed on as they are but for the key.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use tokio::time::timeout;

use super::{Upstream, chain};
use crate::upstream::scrub::Scrub;

/// The longest wait for the head of an answer that is not streamed: it comes when all is written.
const PLAIN: Duration = Duration::from_secs(600);

/// Which part of the Messages API is asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Part {
    /// `/v1/messages`.
    Messages,
    /// `/v1/messages/count_tokens`.
    CountTokens,
    /// `/v1/models`.
    Models,
    /// `/v1/models/{id}`.
    Model(String),
}

/// A request to pass on.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Its method.
    pub method: Method,
    /// Where it goes.
    pub part: Part,
    /// The query, as it was sent.
    pub query: Option<String>,
    /// Headers that may leave; the caller's key is not among them.
    pub headers: HeaderMap,
    /// The body, byte for byte.
    pub body: Bytes,
}

/// The answer, as it comes.
pub struct Forwarded {
    /// Its status.
    pub status: StatusCode,
    /// Its headers, all of them.
    pub headers: HeaderMap,
    /// Its body, byte for byte unless it quotes the key; an error ends it, in words that may be shown.
    pub body: BoxStream<'static, Result<Bytes, String>>,
}

impl std::fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwarded")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// A model's id that cannot stand in a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoModelId;

impl Part {
    /// Reads a model's id out of a path; what could name another path is none.
    ///
    /// # Errors
    ///
    /// If it is empty, of dots alone, or has characters that no known id has.
    pub fn model(id: &str) -> Result<Self, NoModelId> {
        let known = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
        let plain = !id.is_empty() && id.len() <= 256 && id.chars().all(known);
        if plain && id.chars().any(|c| c != '.') {
            Ok(Self::Model(id.to_owned()))
        } else {
            Err(NoModelId)
        }
    }

    /// Returns its path.
    pub fn path(&self) -> String {
        match self {
            Self::Messages => "/v1/messages".to_owned(),
            Self::CountTokens => "/v1/messages/count_tokens".to_owned(),
            Self::Models => "/v1/models".to_owned(),
            Self::Model(id) => format!("/v1/models/{id}"),
        }
    }
}

impl Forwarded {
    /// Makes an answer of a body that cannot hold a key.
    pub fn new<E: std::fmt::Display>(
        status: StatusCode,
        headers: HeaderMap,
        body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> Self {
        let body = body.map_err(|error| error.to_string()).boxed();
        Self {
            status,
            headers,
            body,
        }
    }
}

impl Upstream {
    /// Passes a request on under this server's key.
    ///
    /// Returns when the answer has begun, whatever its status. Dropping the future or the body ends
    /// the request.
    ///
    /// # Errors
    ///
    /// If the upstream cannot be reached or does not answer, in words that may be shown.
    pub async fn forward(&self, forward: Forward) -> Result<Forwarded, String> {
        let Forward {
            method,
            part,
            query,
            headers,
            body,
        } = forward;
        let mut url = self.url.clone();
        let above = url.path().strip_suffix("/v1/messages").unwrap_or_default();
        let path = format!("{above}{}", part.path());
        url.set_path(&path);
        url.set_query(query.as_deref());
        let request = self.client.request(method, url);
        let request = request.headers(self.under_key(headers)).body(body);
        let patience = self.first_byte.max(PLAIN);
        match timeout(patience, request.send()).await {
            Ok(Ok(response)) => Ok(self.forwarded(response)),
            Ok(Err(error)) => Err(self.unreachable(error).to_string()),
            Err(_) => Err(format!(
                "the model's provider did not answer within {} s",
                patience.as_secs()
            )),
        }
    }

    /// Adds the key and what goes with it to the headers of a caller, which win where both say
    /// something; betas are joined.
    fn under_key(&self, mut headers: HeaderMap) -> HeaderMap {
        let beta = HeaderName::from_static("anthropic-beta");
        let said: Vec<HeaderValue> = headers.get_all(&beta).iter().cloned().collect();
        headers.remove(&beta);
        let ours = self.headers.get(&beta).cloned();
        for value in said.into_iter().chain(ours) {
            headers.append(beta.clone(), value);
        }
        for (name, value) in &self.headers {
            if *name != beta && (value.is_sensitive() || !headers.contains_key(name)) {
                headers.insert(name.clone(), value.clone());
            }
        }
        headers
    }

    fn forwarded(&self, response: Response) -> Forwarded {
        let scrub = Scrub::new(self.key.as_ref());
        let (status, mut headers) = (response.status(), response.headers().clone());
        scrub.headers(&mut headers);
        let idle = self.bounds.idle;
        let chunks = response
            .bytes_stream()
            .map_err(|error| chain(&error.without_url()));
        let chunks = stream::unfold(Some(chunks.boxed()), move |chunks| async move {
            let mut chunks = chunks?;
            match timeout(idle, chunks.next()).await {
                Ok(next) => next.map(|chunk| (chunk, Some(chunks))),
                Err(_) => Some((Err(format!("nothing came for {} s", idle.as_secs())), None)),
            }
        });
        Forwarded {
            status,
            headers,
            body: scrub.over(chunks.boxed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_names_no_other_path() {
        for id in ["claude-opus-5-5", "anthropic.claude:0", "m@2026", "a..b"] {
            assert_eq!(Part::model(id), Ok(Part::Model(id.to_owned())));
        }
        for id in ["", ".", "..", "a/b", "%2e%2e", "a?b", "a#b", "a b", "ä"] {
            assert_eq!(Part::model(id), Err(NoModelId), "{id}");
        }
    }

    #[test]
    fn the_key_is_ours_and_the_betas_are_everybodys() {
        let mut options = super::super::Options::new("http://h/tail/v1");
        options.key = Some("sk-ours".into());
        options.betas = vec!["ours-1".to_owned()];
        let upstream = Upstream::new(options).unwrap();
        let mut headers = HeaderMap::new();
        let mut put = |name: &'static str, value: &'static str| {
            headers.append(name, HeaderValue::from_static(value));
        };
        put("anthropic-beta", "theirs-1,theirs-2");
        put("anthropic-version", "2026-10-21");
        put("x-api-key", "sk-theirs");
        let sent = upstream.under_key(headers);
        let all = |name: &str| sent.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(all("anthropic-beta"), ["theirs-1,theirs-2", "ours-1"]);
        assert_eq!(all("anthropic-version"), ["2026-10-21"]);
        assert_eq!(all("x-api-key"), ["sk-ours"]);
        assert_eq!(all("content-type"), ["application/json"]);
    }
}
