//! Follows a session's events over lost connections and restarts of the server.

use std::{fmt, time::Duration};

use futures::{StreamExt as _, stream::BoxStream};
use reqwest::Method;
use serde_json::Value;
use sse_stream::{Sse, SseByteStream};
use tokio::time::{Instant, sleep, timeout};

use super::{Client, Error, FIRST, LONGEST, accepted};

/// The longest silence: servers send a ping far more often.
const SILENCE: Duration = Duration::from_secs(90);

/// Where to begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum From {
    /// With what comes next.
    Now,
    /// With what stands after this position; 0 is the whole log.
    After(u64),
}

/// Whether text is shown while it is being made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Previews {
    /// Yes.
    Shown,
    /// No.
    Hidden,
}

/// What a stream brings.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The event's type.
    pub kind: String,
    /// The object as it was sent.
    pub text: String,
    /// The object.
    pub event: Value,
    /// Its position in the log; previews have none.
    pub position: Option<u64>,
}

/// A session's events, one after the other.
pub struct Follow {
    client: Client,
    path: String,
    previews: Previews,
    position: Option<u64>,
    frames: Option<BoxStream<'static, Result<Sse, sse_stream::Error>>>,
    /// When the connection was lost, and the wait before the next attempt.
    lost: Option<(Instant, Duration)>,
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Follow {
    pub(super) fn new(client: Client, session: &str, from: From, previews: Previews) -> Self {
        let position = match from {
            From::Now => None,
            From::After(position) => Some(position),
        };
        let path = format!("/v1/sessions/{session}/events/stream");
        Self {
            client,
            path,
            previews,
            position,
            frames: None,
            lost: None,
        }
    }

    /// Connects, so that nothing which happens afterwards is missed.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached or refuses.
    pub async fn open(&mut self) -> Result<(), Error> {
        if self.position.is_none() {
            // A connection that breaks before it brought anything must not leave a gap.
            self.position = Some(self.head().await?);
        }
        let query: &[_] = match self.previews {
            Previews::Shown => &[("event_deltas[]", "agent.message")],
            Previews::Hidden => &[],
        };
        let mut request = self.client.request(Method::GET, &self.path, query);
        if let Some(position) = self.position {
            request = request.header("last-event-id", position.to_string());
        }
        let sent = timeout(SILENCE, request.send()).await;
        let response = match sent {
            Ok(sent) => sent.map_err(|error| self.client.unreachable(error))?,
            Err(_) => return Err(self.silent()),
        };
        let response = accepted(response).await?;
        self.frames = Some(SseByteStream::new(response.bytes_stream()).boxed());
        Ok(())
    }

    /// Returns the position of the newest record.
    async fn head(&mut self) -> Result<u64, Error> {
        let session = self.path.trim_start_matches("/v1/sessions/");
        let session = session.trim_end_matches("/events/stream");
        let path = format!("/outlast/v1/sessions/{session}/diagnosis");
        let found = self.client.get(&path, &[]).await?;
        let tail = found.get("tail").and_then(Value::as_u64);
        tail.ok_or_else(|| Error::Form {
            what: "a diagnosis without `tail`".to_owned(),
        })
    }

    /// Returns the next event, preview or ping; `None` once the session is over.
    ///
    /// A lost connection is made again where the last one ended, for as long as the client's
    /// patience lasts. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// If the patience is over, or the server refuses.
    pub async fn next(&mut self) -> Result<Option<Frame>, Error> {
        loop {
            if self.frames.is_none() {
                self.reopen().await?;
            }
            let Some(frames) = &mut self.frames else {
                continue;
            };
            let lost = match timeout(SILENCE, frames.next()).await {
                Ok(Some(Ok(sse))) => match self.read(sse) {
                    Ok(Some(frame)) => return Ok(Some(frame)),
                    Ok(None) => continue,
                    Err(error) if error.may_pass() => error.to_string(),
                    Err(error) => return Err(error),
                },
                Ok(Some(Err(error))) => super::error::chain(&error),
                Ok(None) => "the stream ended".to_owned(),
                Err(_) => "nothing came for too long".to_owned(),
            };
            self.frames = None;
            if is_over(&self.client, &self.path).await? {
                return Ok(None);
            }
            self.wait(|url| Error::Unreachable {
                url,
                reason: lost,
                begun: true,
            })?;
        }
    }

    async fn reopen(&mut self) -> Result<(), Error> {
        if let Some((_, pause)) = self.lost {
            sleep(pause).await;
        }
        match self.open().await {
            Ok(()) => Ok(()),
            Err(error) if error.may_pass() => self.wait(|_| error),
            Err(error) => Err(error),
        }
    }

    /// Notes a failure; gives up once they last longer than the client's patience.
    fn wait(&mut self, error: impl FnOnce(String) -> Error) -> Result<(), Error> {
        let (since, pause) = self.lost.unwrap_or_else(|| (Instant::now(), FIRST));
        if since.elapsed() > self.client.patience {
            return Err(error(self.client.url().to_owned()));
        }
        self.lost = Some((since, (pause * 2).min(LONGEST)));
        Ok(())
    }

    /// Reads one frame; `None` for what is no object.
    fn read(&mut self, sse: Sse) -> Result<Option<Frame>, Error> {
        let Some(text) = sse.data.filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let event: Value = serde_json::from_str(&text).map_err(|error| Error::Form {
            what: format!("a frame of the stream: {error}"),
        })?;
        let position = sse.id.and_then(|id| id.parse().ok());
        self.position = position.or(self.position);
        let kind = event
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if kind != "error" {
            self.lost = None;
        }
        match kind.as_str() {
            "ping" => {
                if self.position.is_none() {
                    self.position = event.get("head").and_then(Value::as_u64);
                }
                Ok(None)
            }
            "error" => Err(broken_off(&event, &text)),
            _ => Ok(Some(Frame {
                kind,
                text,
                event,
                position,
            })),
        }
    }

    fn silent(&self) -> Error {
        let url = self.client.url().to_owned();
        Error::Unreachable {
            url,
            reason: "no answer for too long".to_owned(),
            begun: true,
        }
    }
}

/// Tells whether the session of a stream is over, so that no stream will bring more.
async fn is_over(client: &Client, path: &str) -> Result<bool, Error> {
    let path = path.trim_end_matches("/events/stream");
    match client.get(path, &[]).await {
        Ok(session) => Ok(session.get("status").and_then(Value::as_str) == Some("terminated")),
        Err(Error::Refused { status: 404, .. }) => Ok(true),
        // The next attempt to connect says more.
        Err(error) if error.may_pass() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads the last frame of a stream that the server broke off: what is no fault of the request may
/// pass, as it would as the answer of a request.
fn broken_off(event: &Value, text: &str) -> Error {
    let kind = event.pointer("/error/type").and_then(Value::as_str);
    let status = match kind {
        Some("api_error" | "overloaded_error") => reqwest::StatusCode::SERVICE_UNAVAILABLE,
        _ => reqwest::StatusCode::OK,
    };
    super::refusal(status, None, None, text.as_bytes())
}
