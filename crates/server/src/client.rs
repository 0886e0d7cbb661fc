//! Talks to a server over HTTP as any client does: nothing here knows its insides.

mod error;
mod files;
mod find;
mod follow;

use std::time::Duration;

use reqwest::{
    Method, RequestBuilder, Response, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use tokio::time::{Instant, sleep};

pub use error::Error;
pub use find::{Found, Where, find};
pub use follow::{Follow, Frame, From, Previews};

/// The longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// The longest wait for an answer that is no stream.
const ANSWER: Duration = Duration::from_secs(120);

/// The longest wait between attempts, whatever the server asks for.
const LONGEST: Duration = Duration::from_secs(5);

/// The first wait between attempts; doubled each time.
const FIRST: Duration = Duration::from_millis(200);

/// The part of the API that is spoken.
const BETA: &str = "managed-agents-2026-04-01";

/// A server at an address.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    patience: Duration,
}

impl Client {
    /// Makes a client; nothing is sent.
    ///
    /// # Errors
    ///
    /// If the address is no http or https URL, or the key cannot be sent.
    pub fn new(base: &str, key: Option<&SecretString>) -> Result<Self, Error> {
        let bad = |reason: &str| Error::Address {
            url: base.to_owned(),
            reason: reason.to_owned(),
        };
        let text = base.trim().trim_end_matches('/');
        let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() || url.query().is_some() {
            return Err(bad("must be an http or https URL without a query"));
        }
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("outlast/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers(key)?);
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| bad(&error.to_string()))?;
        Ok(Self {
            http,
            base: url,
            patience: Duration::ZERO,
        })
    }

    /// Returns a client of the same server that sends another key.
    ///
    /// # Errors
    ///
    /// If the key cannot be sent.
    pub fn with_key(&self, key: &SecretString) -> Result<Self, Error> {
        let other = Self::new(self.base.as_str(), Some(key))?;
        Ok(other.patient(self.patience))
    }

    /// Goes on trying for `patience` while the server cannot be reached or cannot take more.
    #[must_use]
    pub fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Returns the address.
    pub fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Reads an object.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, refuses, or answers in another form.
    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, Error> {
        self.send(Method::GET, path, query, None).await
    }

    /// Reads what is no object, such as metrics, as text.
    ///
    /// # Errors
    ///
    /// As for [`Client::get`].
    pub async fn text(&self, path: &str) -> Result<String, Error> {
        let request = self.request(Method::GET, path, &[]).timeout(ANSWER);
        let response = request.send().await;
        let response = response.map_err(|error| self.unreachable(error))?;
        let text = accepted(response).await?.text().await;
        text.map_err(|error| self.unreachable(error))
    }

    /// Writes an object; safe to be repeated, and repeated where that helps.
    ///
    /// # Errors
    ///
    /// As for [`Client::get`].
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        self.send(Method::POST, path, &[], Some(body)).await
    }

    /// Sets an object.
    ///
    /// # Errors
    ///
    /// As [`post`](Self::post).
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, Error> {
        self.send(Method::PUT, path, &[], Some(body)).await
    }

    /// Removes an object.
    ///
    /// # Errors
    ///
    /// As for [`Client::get`].
    pub async fn delete(&self, path: &str) -> Result<Value, Error> {
        self.send(Method::DELETE, path, &[], None).await
    }

    /// Reads all pages of a list up to `limit` objects.
    ///
    /// # Errors
    ///
    /// As for [`Client::get`].
    pub async fn list(
        &self,
        path: &str,
        query: &[(&str, &str)],
        limit: usize,
    ) -> Result<Vec<Value>, Error> {
        let mut found = Vec::new();
        let mut page: Option<String> = None;
        loop {
            let mut query = query.to_vec();
            if let Some(page) = &page {
                query.push(("page", page));
            }
            let mut answer = self.get(path, &query).await?;
            let data = answer.get_mut("data").map(Value::take);
            let Some(Value::Array(data)) = data else {
                return Err(Error::Form {
                    what: format!("the list at `{path}` has no `data`"),
                });
            };
            found.extend(data);
            page = answer
                .get("next_page")
                .and_then(Value::as_str)
                .map(str::to_owned);
            if page.is_none() || found.len() >= limit {
                found.truncate(limit);
                return Ok(found);
            }
        }
    }

    /// Follows the events of a session.
    pub fn follow(&self, session: &str, from: From, previews: Previews) -> Follow {
        Follow::new(self.clone(), session, from, previews)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Value, Error> {
        let deadline = Instant::now() + self.patience;
        let repeat = repeat_key();
        let mut wait = FIRST;
        loop {
            let mut request = self.request(method.clone(), path, query).timeout(ANSWER);
            if let Some(body) = body {
                request = request.json(body).header("idempotency-key", &repeat);
            }
            let error = match self.once(request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause = error.after().unwrap_or(wait).min(LONGEST);
            if !error.may_pass() || Instant::now() + pause > deadline {
                return Err(error);
            }
            sleep(pause).await;
            wait *= 2;
        }
    }

    fn request(&self, method: Method, path: &str, query: &[(&str, &str)]) -> RequestBuilder {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.http.request(method, url)
    }

    async fn once(&self, request: RequestBuilder) -> Result<Value, Error> {
        let response = request
            .send()
            .await
            .map_err(|error| self.unreachable(error))?;
        let response = accepted(response).await?;
        let body = response
            .bytes()
            .await
            .map_err(|error| self.unreachable(error))?;
        serde_json::from_slice(&body).map_err(|error| Error::Form {
            what: error.to_string(),
        })
    }

    fn unreachable(&self, error: reqwest::Error) -> Error {
        let begun = !error.is_connect() && !error.is_builder();
        Error::Unreachable {
            url: self.url().to_owned(),
            reason: error::chain(&error.without_url()),
            begun,
        }
    }
}

/// Returns a key that names one request over all of its attempts.
fn repeat_key() -> String {
    use outlast_protocol::{id::RequestId, seam::Clock as _};
    RequestId::mint(crate::SystemClock::new().now(), &crate::OsEntropy).to_string()
}

/// Turns an answer that is a refusal into an error.
async fn accepted(response: Response) -> Result<Response, Error> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let header = |name: &str| {
        let value = response.headers().get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let after = header(RETRY_AFTER.as_str()).and_then(|text| text.parse().ok());
    let request = header("request-id");
    let body = response.bytes().await.unwrap_or_default();
    Err(refusal(status, after, request, &body))
}

fn refusal(status: StatusCode, after: Option<u64>, request: Option<String>, body: &[u8]) -> Error {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |pointer| {
        body.pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    Error::Refused {
        status: status.as_u16(),
        message: text("/error/message").unwrap_or_else(|| {
            status
                .canonical_reason()
                .unwrap_or("no reason given")
                .to_owned()
        }),
        request: request.or_else(|| text("/request_id")),
        after: after.map(Duration::from_secs),
    }
}

fn headers(key: Option<&SecretString>) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("anthropic-version", HeaderValue::from_static("2026-10-21"));
    headers.insert("anthropic-beta", HeaderValue::from_static(BETA));
    if let Some(key) = key {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
            .map_err(|_| Error::Key)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// Tells whether an address never leaves this machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || literal
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests;
