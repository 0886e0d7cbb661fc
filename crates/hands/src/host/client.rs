//! Requests to a host: over connections that are kept, asked again as long as the host is there.

use std::{
    collections::HashMap,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt as _;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Frame, Incoming},
    client::conn::http1::{self, SendRequest},
    header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;
use outlast_protocol::id::IncarnationId;
use serde::de::DeserializeOwned;
use tokio::{
    sync::Mutex as Turn,
    time::{Instant, sleep},
};
use tokio_util::{io::ReaderStream, task::TaskTracker};

use super::{Place, pulse::Pulse, routes::FAILED, streams::CHUNK};
use crate::{Promise, files::Reader};

/// Connections that wait to be used again.
const KEPT: usize = 32;

/// The first and the longest wait before asking again.
const WAITS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// How often to say that a host that has its lock does not answer.
const SILENCE: Duration = Duration::from_secs(10);

/// What goes to a host.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Starts hosts.
#[async_trait]
pub trait Starter: fmt::Debug + Send + Sync {
    /// Starts a host there, and returns when it listens.
    ///
    /// # Errors
    ///
    /// If it does not start, with the reason.
    async fn start(&self, place: &Place) -> io::Result<()>;
}

/// The host is gone and there is no other.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Gone(pub(super) String);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    /// The connection broke before the answer was there: ask again.
    #[error("{0}")]
    Broken(String),
    /// The host did not understand, or was not understood: asking again changes nothing.
    #[error("the hand host answered {status}: {words}")]
    Confused { status: StatusCode, words: String },
}

/// What came of a request.
#[derive(Debug)]
pub(super) struct Came<T> {
    pub(super) answer: T,
    /// Whether the host that was asked first is gone, and another one answered.
    pub(super) of_another: bool,
}

/// One request that can be made again.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Bytes,
}

impl Ask {
    pub(super) fn new(method: Method, path: String) -> Self {
        let body = Bytes::new();
        Self { method, path, body }
    }
}

/// The hands that lived when they were last heard of, for as long as the host is heard: whatever ends
/// a connection may have been its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(Arc<Mutex<HashMap<IncarnationId, Promise>>>);

impl Known {
    fn lock(&self) -> MutexGuard<'_, HashMap<IncarnationId, Promise>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known of a hand.
    pub(super) fn get(&self, incarnation: IncarnationId) -> Option<Promise> {
        self.lock().get(&incarnation).copied()
    }

    /// Notes that a hand lives.
    pub(super) fn lives(&self, incarnation: IncarnationId, promise: Promise) {
        self.lock().insert(incarnation, promise);
    }

    /// Notes that a hand is gone or about to go.
    pub(super) fn forget(&self, incarnation: IncarnationId) {
        self.lock().remove(&incarnation);
    }
}

/// What speaks to the host of one place.
#[derive(Debug)]
pub(super) struct Client {
    place: Place,
    starter: Option<Arc<dyn Starter>>,
    free: Mutex<Vec<SendRequest<Body>>>,
    known: Known,
    pulse: Pulse,
    /// One at a time starts a host.
    starting: Turn<()>,
    tasks: TaskTracker,
}

impl Client {
    pub(super) fn new(place: Place, starter: Option<Arc<dyn Starter>>) -> Self {
        Self {
            place,
            starter,
            free: Mutex::default(),
            known: Known::default(),
            pulse: Pulse::default(),
            starting: Turn::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Returns which hands are known to live.
    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// Returns whether the host answers.
    pub(super) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Returns the host in words.
    pub(super) fn who(&self) -> String {
        match self.place.holder() {
            Some(holder) => format!("the hand host, process {holder},"),
            None => "the hand host".to_owned(),
        }
    }

    /// Returns where the host is.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Asks until there is an answer: a broken connection says nothing of what was asked, and
    /// asking again joins it. A host that is gone is followed by another.
    pub(super) async fn ask<T, E>(&self, ask: &Ask) -> Result<Came<Result<T, E>>, Gone>
    where
        T: DeserializeOwned,
        E: DeserializeOwned,
    {
        let mut of_another = false;
        let (mut wait, mut silent) = (WAITS.0, Instant::now());
        loop {
            let broken = match self.once(ask).await {
                Ok(answer) => return Ok(Came { answer, of_another }),
                Err(Trouble::Broken(broken)) => broken,
                Err(confused @ Trouble::Confused { .. }) => return Err(Gone(confused.to_string())),
            };
            if !self.place.is_held().unwrap_or(true) {
                of_another = true;
                self.start(&broken).await?;
                continue;
            }
            if silent.elapsed() > SILENCE {
                silent = Instant::now();
                let holder = self.place.holder().unwrap_or_default();
                tracing::warn!(
                    holder,
                    "the hand host, process {holder}, does not answer: {broken}"
                );
            }
            sleep(wait).await;
            wait = (wait * 2).min(WAITS.1);
        }
    }

    /// Starts a host where there is none; returns when there is one.
    pub(super) async fn start(&self, why: &str) -> Result<(), Gone> {
        let _one = self.starting.lock().await;
        if self.place.is_held().unwrap_or(true) {
            return Ok(());
        }
        self.free().clear();
        let Some(starter) = &self.starter else {
            return Err(Gone(format!("the hand host has ended ({why})")));
        };
        let started = starter.start(&self.place).await;
        started.map_err(|error| Gone(format!("no hand host can be started: {error}")))
    }

    /// Asks once.
    async fn once<T, E>(&self, ask: &Ask) -> Result<Result<T, E>, Trouble>
    where
        T: DeserializeOwned,
        E: DeserializeOwned,
    {
        let mut connection = self.connection().await?;
        let body = Full::new(ask.body.clone()).map_err(|never| match never {});
        let request = request(&ask.method, &ask.path, body.boxed_unsync(), Vec::new())?;
        let answer = connection.send_request(request).await.map_err(broken)?;
        let answer = parsed(answer).await?;
        self.keep(connection);
        Ok(answer)
    }

    /// Asks once, whatever comes of it.
    pub(super) async fn try_once<T: DeserializeOwned>(&self, ask: &Ask) -> Result<T, Gone> {
        let answer = self.once::<T, String>(ask).await;
        let answer = answer.map_err(|trouble| Gone(trouble.to_string()))?;
        answer.map_err(Gone)
    }

    /// Sends a stream, once: it cannot be read again.
    pub(super) async fn send<E: DeserializeOwned>(
        &self,
        path: &str,
        content: Reader,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> io::Result<Result<(), E>> {
        let mut connection = self.connection().await.map_err(io::Error::other)?;
        let chunks = ReaderStream::with_capacity(content, CHUNK).map_ok(Frame::data);
        let body = StreamBody::new(chunks).boxed_unsync();
        let request = request(&Method::PUT, path, body, headers).map_err(io::Error::other)?;
        // A reader that fails breaks the connection, and is what went wrong.
        let answer = connection.send_request(request).await.map_err(cause)?;
        parsed(answer).await.map_err(io::Error::other)
    }

    /// Asks for a stream; its beginning is there when this returns.
    pub(super) async fn open<E: DeserializeOwned>(
        &self,
        path: &str,
    ) -> io::Result<Result<Response<Incoming>, E>> {
        let mut connection = self.connection().await.map_err(io::Error::other)?;
        let body = Full::default().map_err(|never| match never {});
        let request = request(&Method::GET, path, body.boxed_unsync(), Vec::new());
        let request = request.map_err(io::Error::other)?;
        let answer = connection.send_request(request).await.map_err(cause)?;
        if answer.status() == StatusCode::OK {
            return Ok(Ok(answer));
        }
        match parsed::<(), E>(answer).await.map_err(io::Error::other)? {
            Err(error) => Ok(Err(error)),
            Ok(()) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<SendRequest<Body>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> Option<SendRequest<Body>> {
        self.free().pop()
    }

    /// Takes a connection that waits, or makes one.
    async fn connection(&self) -> Result<SendRequest<Body>, Trouble> {
        while let Some(mut connection) = self.kept() {
            if connection.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        let stream = self.place.connect().await.map_err(broken)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        let known = self.known.clone();
        self.tasks.spawn(async move {
            // Whoever waits for its answer is told by the sender.
            drop(connection.await);
            known.lock().clear();
        });
        Ok(sender)
    }

    /// Keeps a connection whose answer was read to its end.
    fn keep(&self, connection: SendRequest<Body>) {
        let mut free = self.free();
        if free.len() < KEPT && !connection.is_closed() {
            free.push(connection);
        }
    }
}

fn broken(error: impl fmt::Display) -> Trouble {
    Trouble::Broken(error.to_string())
}

/// Finds what a stream failed of: its own reader, or the connection.
fn cause(error: hyper::Error) -> io::Error {
    let source = std::error::Error::source(&error);
    let own = source.and_then(|source| source.downcast_ref::<io::Error>());
    match own {
        Some(own) => io::Error::new(own.kind(), own.to_string()),
        None => io::Error::other(error),
    }
}

fn request(
    method: &Method,
    path: &str,
    body: Body,
    headers: Vec<(HeaderName, HeaderValue)>,
) -> Result<Request<Body>, Trouble> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "hands")
        .header(CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request.body(body).map_err(|error| Trouble::Confused {
        status: StatusCode::BAD_REQUEST,
        words: error.to_string(),
    })
}

/// Reads an answer to its end.
async fn parsed<T, E>(answer: Response<Incoming>) -> Result<Result<T, E>, Trouble>
where
    T: DeserializeOwned,
    E: DeserializeOwned,
{
    let status = answer.status();
    let bytes = answer.into_body().collect().await.map_err(broken)?;
    let bytes = bytes.to_bytes();
    let confused = |words: String| Trouble::Confused { status, words };
    match status {
        StatusCode::OK => serde_json::from_slice(&bytes)
            .map(Ok)
            .map_err(|error| confused(error.to_string())),
        FAILED => serde_json::from_slice(&bytes)
            .map(Err)
            .map_err(|error| confused(error.to_string())),
        _ => Err(confused(String::from_utf8_lossy(&bytes).into_owned())),
    }
}
