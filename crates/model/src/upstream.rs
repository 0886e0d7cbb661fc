//! A model behind the Messages API over HTTP.

mod answer;
mod forward;
mod provider;
mod scrub;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::timeout;

use crate::sse::{self, Bounds, Broken};
use crate::{Call, Error, Events, Model};

pub use forward::{Forward, Forwarded, NoModelId, Part};
pub use provider::Provider;

/// How often a connection in use is asked whether the other end still lives.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The header that carries the key.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum KeyHeader {
    /// `x-api-key`, which the hosted API and llama.cpp's server both take.
    #[default]
    ApiKey,
    /// `Authorization: Bearer`, for gateways and OAuth tokens.
    Bearer,
}

/// How to reach an upstream.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where `/v1/messages` is found; a trailing `/v1` is tolerated.
    pub base_url: String,
    /// The key; `None` sends none.
    pub key: Option<SecretString>,
    /// The header that carries it.
    pub key_header: KeyHeader,
    /// The `anthropic-version`.
    pub version: String,
    /// Values of `anthropic-beta`, joined by commas.
    pub betas: Vec<String>,
    /// The longest wait for a connection, TLS included.
    pub connect_timeout: Duration,
    /// The longest wait for the head of the answer once the request is on its way.
    pub first_byte_timeout: Duration,
    /// The longest silence within an answer.
    pub idle_timeout: Duration,
    /// The longest answer, in bytes on the wire.
    pub max_answer_bytes: u64,
}

impl Options {
    /// Makes options for `base_url` with the defaults for everything else.
    ///
    /// Ten seconds to connect; five minutes to the first byte and between bytes, because a model
    /// on a CPU reads a long prompt in silence; 64 MiB an answer.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            key: None,
            key_header: KeyHeader::default(),
            version: "2023-06-01".to_owned(),
            betas: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(300),
            max_answer_bytes: 64 * 1024 * 1024,
        }
    }
}

/// The options cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadOptions {
    /// The base URL is not one.
    #[error(
        "the model's base URL must be an absolute http or https URL without user, query or fragment"
    )]
    BaseUrl,
    /// A value cannot stand in a header; it may be the key, so it is not shown.
    #[error("`{header}` cannot be sent: the value has characters that a header may not have")]
    Header {
        /// The header.
        header: &'static str,
    },
    /// The HTTP client could not be made.
    #[error("the HTTP client could not be made: {reason}")]
    Client {
        /// What it said.
        reason: String,
    },
}

/// Sends requests to an upstream that speaks the Messages API.
///
/// Cloning shares the connections, which are kept between requests where there is TLS. Redirects are refused, because following one would carry the
/// key to another host. A proxy named by the environment is used, but not to reach loopback.
#[derive(Clone)]
pub struct Upstream {
    client: Client,
    url: Url,
    headers: HeaderMap,
    key: Option<SecretString>,
    first_byte: Duration,
    bounds: Bounds,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("url", &self.url.as_str())
            .finish_non_exhaustive()
    }
}

impl Upstream {
    /// Makes a client; nothing is sent.
    ///
    /// # Errors
    /// If the options cannot be used.
    pub fn new(options: Options) -> Result<Self, BadOptions> {
        let url = messages_url(&options.base_url)?;
        let headers = headers(&options)?;
        let mut client = Client::builder()
            .connect_timeout(options.connect_timeout)
            .redirect(redirect::Policy::none())
            // A peer that vanished without a word is noticed long before the idle timeout.
            .tcp_keepalive(KEEP_ALIVE)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .http2_keep_alive_timeout(KEEP_ALIVE)
            .user_agent(concat!("outlast/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&url) {
            client = client.no_proxy();
        }
        if url.scheme() == "http" {
            // llama.cpp's server promises to keep connections and closes them after each stream,
            // so every other request would fail. Without TLS a new connection costs next to nothing.
            client = client.pool_max_idle_per_host(0);
        }
        let client = client.build().map_err(|error| BadOptions::Client {
            reason: error.to_string(),
        })?;
        Ok(Self {
            client,
            url,
            headers,
            key: options.key,
            first_byte: options.first_byte_timeout,
            bounds: Bounds {
                idle: options.idle_timeout,
                bytes: options.max_answer_bytes,
            },
        })
    }

    /// Returns the address requests are sent to.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    async fn send(&self, call: &Call) -> Result<Response, Error> {
        let request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(call.body.get().to_owned());
        match timeout(self.first_byte, request.send()).await {
            Ok(sent) => sent.map_err(|error| self.unreachable(error)),
            Err(_) => Err(Error::failed(format!(
                "the model's provider did not answer within {} s",
                self.first_byte.as_secs_f32()
            ))),
        }
    }

    /// Reads an answer that is no stream and says what is wrong.
    async fn refused(&self, response: Response) -> Error {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes_stream();
        let body = timeout(self.bounds.idle, answer::head(body));
        let body = body.await.unwrap_or_default();
        answer::refusal(status, &headers, &body, |words| self.scrub(words))
    }

    /// Describes a failure to reach the upstream, without its URL.
    fn unreachable(&self, error: reqwest::Error) -> Error {
        let what = if error.is_connect() {
            "cannot be reached"
        } else {
            "did not take the request"
        };
        let cause = self.scrub(&chain(&error.without_url()));
        Error::failed(format!("the model's provider {what}: {cause}"))
    }

    /// Takes the key out of words that may be shown: some upstreams quote it.
    fn scrub(&self, words: &str) -> String {
        match &self.key {
            Some(key) if !key.expose_secret().is_empty() => {
                words.replace(key.expose_secret(), "[key]")
            }
            Some(_) | None => words.to_owned(),
        }
    }
}

#[async_trait]
impl Model for Upstream {
    async fn stream(&self, call: Call) -> Result<Events, Error> {
        let response = self.send(&call).await?;
        if !response.status().is_success() || !answer::is_stream(response.headers()) {
            return Err(self.refused(response).await);
        }
        let body = response
            .bytes_stream()
            .map_err(|error| Broken::Connection(chain(&error.without_url())));
        let upstream = self.clone();
        let events = sse::events(body, self.bounds)
            .map(move |event| event.map_err(|error| upstream.scrubbed(error)));
        Ok(Box::pin(events))
    }
}

impl Upstream {
    /// Takes the key out of an error that came in the middle of a stream.
    fn scrubbed(&self, error: Error) -> Error {
        match error {
            Error::Retry {
                kind,
                after,
                message,
            } => Error::Retry {
                kind,
                after,
                message: self.scrub(&message),
            },
            Error::Overflow { message } => Error::Overflow {
                message: self.scrub(&message),
            },
            Error::Billing { message } => Error::Billing {
                message: self.scrub(&message),
            },
            Error::NoModel { message } => Error::NoModel {
                message: self.scrub(&message),
            },
            Error::Refused { message } => Error::Refused {
                message: self.scrub(&message),
            },
            Error::Withdrawn { message } => Error::Withdrawn {
                message: self.scrub(&message),
            },
            Error::Fatal { message } => Error::Fatal {
                message: self.scrub(&message),
            },
        }
    }
}

/// Builds the address of the messages endpoint.
fn messages_url(base: &str) -> Result<Url, BadOptions> {
    let base = base.trim().trim_end_matches('/');
    let base = base.strip_suffix("/v1").unwrap_or(base);
    let url = Url::parse(&format!("{base}/v1/messages")).map_err(|_| BadOptions::BaseUrl)?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && !base.contains(['?', '#']);
    if plain {
        Ok(url)
    } else {
        Err(BadOptions::BaseUrl)
    }
}

/// Builds the headers of every request.
fn headers(options: &Options) -> Result<HeaderMap, BadOptions> {
    let mut headers = HeaderMap::new();
    let mut put = |name: &'static str, value: &str, secret: bool| {
        let mut value =
            HeaderValue::from_str(value).map_err(|_| BadOptions::Header { header: name })?;
        value.set_sensitive(secret);
        headers.insert(HeaderName::from_static(name), value);
        Ok(())
    };
    put(CONTENT_TYPE.as_str(), "application/json", false)?;
    put(
        ACCEPT.as_str(),
        "text/event-stream, application/json",
        false,
    )?;
    put("anthropic-version", &options.version, false)?;
    if !options.betas.is_empty() {
        put("anthropic-beta", &options.betas.join(","), false)?;
    }
    if let Some(key) = &options.key {
        let key = key.expose_secret();
        match options.key_header {
            KeyHeader::ApiKey => put("x-api-key", key, true)?,
            KeyHeader::Bearer => put(AUTHORIZATION.as_str(), &format!("Bearer {key}"), true)?,
        }
    }
    Ok(headers)
}

/// Tells whether an address never leaves this machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || literal.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Joins an error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_taken_with_and_without_a_tail() {
        for base in [
            "http://h:1",
            "http://h:1/",
            "http://h:1/v1",
            " http://h:1/v1/ ",
        ] {
            assert_eq!(
                messages_url(base).unwrap().as_str(),
                "http://h:1/v1/messages"
            );
        }
        assert_eq!(
            messages_url("https://h/proxy/anthropic").unwrap().as_str(),
            "https://h/proxy/anthropic/v1/messages"
        );
        for base in [
            "",
            "h",
            "ftp://h",
            "http://u:p@h",
            "http://u@h",
            "http://h?x=1",
            "http://h#x",
        ] {
            assert_eq!(messages_url(base), Err(BadOptions::BaseUrl), "{base}");
        }
    }

    #[test]
    fn the_key_is_in_no_debug_output_and_no_refusal() {
        let mut options = Options::new("http://127.0.0.1:1");
        options.key = Some("sk-canary".into());
        assert!(!format!("{options:?}").contains("sk-canary"));
        let upstream = Upstream::new(options.clone()).unwrap();
        assert!(!format!("{upstream:?}").contains("sk-canary"));
        assert_eq!(upstream.scrub("bad key sk-canary!"), "bad key [key]!");
        options.key = Some("sk-\ncanary".into());
        let error = Upstream::new(options).unwrap_err();
        assert_eq!(
            error,
            BadOptions::Header {
                header: "x-api-key"
            }
        );
    }

    #[test]
    fn loopback_is_known_in_every_form() {
        for (url, expected) in [
            ("http://localhost:1", true),
            ("http://127.8.9.10", true),
            ("http://[::1]:1", true),
            ("http://192.168.1.1", false),
            ("http://localhost.example.com", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
