//! Requests to places that clients named: token endpoints and MCP servers.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use outlast_protocol::credential::HttpResponse;
use outlast_reach::{Dialer, Host};
use outlast_scrub::Scrubber;
use reqwest::{Certificate, Client, RequestBuilder, Response, Url, header::CONTENT_TYPE, redirect};
use zeroize::Zeroizing;

use crate::Secret;

/// How long a request may take, its answer included.
const WHOLE: Duration = Duration::from_secs(20);

/// The most that is read of an answer.
const MOST: usize = 1 << 20;

/// What is shown of an answer.
const SHOWN: usize = 4_096;

/// Sends requests to what a [`Dialer`] may reach, at the address that was checked.
#[derive(Clone, Debug)]
pub(crate) struct Outside {
    dialer: Dialer,
    authorities: Arc<[Vec<u8>]>,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    /// The session that an MCP server opened, if it did.
    pub(crate) session: Option<String>,
    pub(crate) body: Zeroizing<Vec<u8>>,
    /// Whether there was more.
    pub(crate) cut: bool,
}

/// Nothing came back.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unanswered(pub(crate) String);

/// How much of an answer is wanted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wanted {
    /// All of it.
    Body,
    /// None of it where it is a good one: it may be a stream without an end.
    Head,
}

impl Outside {
    pub(crate) fn new(dialer: Dialer, authorities: Vec<Vec<u8>>) -> Self {
        let authorities = authorities.into();
        Self {
            dialer,
            authorities,
        }
    }

    /// Posts what `make` makes of a request. Redirects are not followed: they would carry secrets to
    /// where nobody wanted them.
    pub(crate) async fn post(
        &self,
        url: &str,
        wanted: Wanted,
        make: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Reply, Unanswered> {
        let url = Url::parse(url).map_err(|error| Unanswered(format!("no URL: {error}")))?;
        let client = self.client(&url).await?;
        let sent = make(client.post(url)).send().await.map_err(unanswered)?;
        read(sent, wanted).await
    }

    /// Makes a client that connects to what was checked, and to nothing else.
    async fn client(&self, url: &Url) -> Result<Client, Unanswered> {
        let name = url.host_str().unwrap_or_default();
        let host: Host = name
            .parse()
            .map_err(|error| Unanswered(format!("`{name}` is no host: {error}")))?;
        let port = url.port_or_known_default().unwrap_or(443);
        let addresses: Vec<SocketAddr> = self
            .dialer
            .resolve(&host, port)
            .await
            .map_err(|error| Unanswered(error.to_string()))?;
        let authorities = self
            .authorities
            .iter()
            .map(|der| Certificate::from_der(der));
        let authorities: Vec<_> = authorities.collect::<Result<_, _>>().map_err(unanswered)?;
        let client = Client::builder()
            .tls_certs_merge(authorities)
            // A proxy would resolve the name again.
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(WHOLE)
            .user_agent(concat!("outlast/", env!("CARGO_PKG_VERSION")))
            .resolve_to_addrs(name, &addresses);
        client.build().map_err(unanswered)
    }
}

async fn read(mut sent: Response, wanted: Wanted) -> Result<Reply, Unanswered> {
    let header = |name: &str| {
        let value = sent.headers().get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let mut reply = Reply {
        status: sent.status().as_u16(),
        content_type: header(CONTENT_TYPE.as_str()).unwrap_or_default(),
        session: header("mcp-session-id"),
        body: Zeroizing::default(),
        cut: false,
    };
    if wanted == Wanted::Head && sent.status().is_success() {
        return Ok(reply);
    }
    while let Some(chunk) = sent.chunk().await.map_err(unanswered)? {
        let room = MOST - reply.body.len();
        let part = chunk.get(..room.min(chunk.len())).unwrap_or_default();
        reply.body.extend_from_slice(part);
        if part.len() < chunk.len() {
            reply.cut = true;
            break;
        }
    }
    Ok(reply)
}

/// Returns the words without the URL, whose query may hold anything.
fn unanswered(error: reqwest::Error) -> Unanswered {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(deeper) = cause {
        words = format!("{words}: {deeper}");
        cause = deeper.source();
    }
    Unanswered(words)
}

impl Reply {
    pub(crate) fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns what may be shown of it: without these secrets, and cut.
    pub(crate) fn shown(&self, secrets: &[&Secret]) -> HttpResponse {
        let scrubbed = Scrubber::new(secrets.iter().copied()).bytes(&self.body);
        let text = String::from_utf8_lossy(&scrubbed);
        let mut end = text.len().min(SHOWN);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        HttpResponse {
            body: text.get(..end).unwrap_or_default().to_owned(),
            body_truncated: self.cut || end < text.len(),
            content_type: self.content_type.clone(),
            status_code: self.status,
        }
    }
}
