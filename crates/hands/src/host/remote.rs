//! A provisioner whose hands are in a host.

use std::{io, net::TcpListener, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt as _;
use http_body_util::BodyExt as _;
use hyper::{
    Method,
    header::{HeaderName, HeaderValue},
};
use outlast_protocol::id::{EventId, IncarnationId};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{sleep, timeout};
use tokio_util::io::StreamReader;

use super::{
    About, OLDEST, Place, Starter, VERSION,
    client::{Ask, Client, Gone},
    outlets,
    remote_hand::RemoteHand,
    streams,
    wire::{Alive, Fault, LIMITS, SUM, Settings, escaped, milliseconds},
};
use crate::{
    Hand, Keep, Limits, Promise, ProvisionError, Provisioner, ReapError, Recalled, Recipe, Silence,
    files::{Abilities, Packed, Published, Reader, Upload},
};

/// How long a host that has its lock may take to say what it is.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest time between two words to a host: as often it is looked whether it answers.
const WORD: Duration = Duration::from_secs(5);

/// How long a host may take to tell its figures: whoever reads them asks again.
const FIGURES: Duration = Duration::from_secs(2);

/// How often to ask for a way out again.
const TRIES: u32 = 3;

/// How a host was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found {
    /// It was there.
    Adopted,
    /// It was started.
    Started,
    /// One of another version was there and was told to drain; one was started beside it.
    Beside,
}

/// Why there is no host.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is none, and nobody to start one.
    #[error("no hand host runs in `{0}`")]
    None(std::path::PathBuf),
    /// It could not be started.
    #[error("the hand host could not be started: {0}")]
    Start(String),
    /// It has its lock and does not answer.
    #[error("the hand host, process {holder}, does not answer in {} seconds", PATIENCE.as_secs())]
    Silent {
        /// The process.
        holder: String,
    },
}

/// Makes hands in the host of a data directory.
///
/// Cheap to clone. Dropping it ends nothing: hands live on in their host.
#[derive(Clone, Debug)]
pub struct Remote {
    client: Arc<Client>,
    about: About,
}

impl Remote {
    /// Finds the host of a data directory, or has one started.
    ///
    /// A host of a version that this one does not speak is told to drain, and one is started
    /// beside it.
    ///
    /// # Errors
    ///
    /// If there is none afterwards that answers.
    pub async fn open(
        dir: &Path,
        starter: Option<Arc<dyn Starter>>,
    ) -> Result<(Self, Found), OpenError> {
        let usual = Place::usual(dir);
        let mut found = Found::Started;
        if usual.is_held().unwrap_or(true) {
            let remote = Self::at(usual.clone(), starter.clone()).await?;
            if remote.fits() {
                return Ok((remote, Found::Adopted));
            }
            remote.drain().await;
            found = Found::Beside;
        }
        let beside = Place::beside(dir);
        if beside.is_held().unwrap_or(false) {
            let remote = Self::at(beside, starter).await?;
            return Ok((remote, Found::Adopted));
        }
        let place = match found {
            Found::Beside => beside,
            Found::Adopted | Found::Started => usual,
        };
        if starter.is_none() {
            return Err(OpenError::None(dir.to_owned()));
        }
        let client = Client::new(place.clone(), starter.clone());
        let started = client.start("there was none").await;
        started.map_err(|Gone(words)| OpenError::Start(words))?;
        Ok((Self::at(place, starter).await?, found))
    }

    /// Speaks to the host of a place.
    async fn at(place: Place, starter: Option<Arc<dyn Starter>>) -> Result<Self, OpenError> {
        let client = Arc::new(Client::new(place, starter));
        let asked = timeout(PATIENCE, about(&client)).await;
        match asked {
            Ok(Ok(about)) => Ok(Self { client, about }),
            Ok(Err(Gone(words))) => Err(OpenError::Start(words)),
            Err(_) => Err(OpenError::Silent {
                holder: client.place().holder().unwrap_or_default(),
            }),
        }
    }

    /// Returns what the host said of itself when it was found.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Tells whether the host speaks a version that this one speaks.
    fn fits(&self) -> bool {
        let version = self.about.version;
        let known = version == VERSION || version + 1 == VERSION;
        known && version >= OLDEST && !self.about.draining
    }

    /// Tells the host to take no new hand and to end with its last one.
    async fn drain(&self) {
        self.say("/v1/host/drain").await;
    }

    /// Has the host, which may have been started by an earlier server, wait so long for a server.
    ///
    /// One that does not know how keeps what it was started with; that is logged.
    pub async fn wait_for_servers(&mut self, orphan: Duration) {
        let orphan_ms = milliseconds(orphan);
        if self.about.orphan_ms == orphan_ms {
            return;
        }
        let was = self.about.orphan_ms;
        let mut ask = Ask::new(Method::PUT, "/v1/host/settings".to_owned());
        // Numbers always make JSON.
        ask.body = body(&Settings { orphan_ms }).unwrap_or_default();
        match timeout(PATIENCE, self.client.try_once::<()>(&ask)).await {
            Ok(Ok(())) => self.about.orphan_ms = orphan_ms,
            Ok(Err(_)) | Err(_) => tracing::warn!(
                "the hand host keeps `hands.orphan_seconds` at {} s until it ends; \
                 `outlast hand-host --stop` ends it",
                was / 1_000
            ),
        }
    }

    /// Returns the figures of the host, in the text form of Prometheus.
    ///
    /// Nothing if it does not answer soon: a host of an earlier version has none.
    pub async fn figures(&self) -> String {
        let ask = Ask::new(Method::GET, "/v1/host/figures".to_owned());
        let asked = timeout(FIGURES, self.client.try_once(&ask)).await;
        asked.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Tells the host that its server goes away in order: it ends if it has no hand.
    pub async fn leave(&self) {
        self.say("/v1/host/leave").await;
    }

    /// Says a word, once; a host that does not hear it finds out by itself.
    async fn say(&self, path: &str) {
        let ask = Ask::new(Method::POST, path.to_owned());
        let said = timeout(PATIENCE, self.client.try_once::<()>(&ask)).await;
        if !matches!(said, Ok(Ok(()))) {
            tracing::warn!(path, "the hand host did not hear `{path}`");
        }
    }

    /// Lets the host know that a server is there, for ever, and notes whether it answers; a host that
    /// has ended is followed by another at once, not only when a hand is needed.
    pub async fn attend(&self) {
        let orphan = Duration::from_millis(self.about.orphan_ms);
        loop {
            sleep((orphan / 4).min(WORD)).await;
            let client = &self.client;
            let asked = client.pulse().feel(|| client.who(), about(client)).await;
            if let Err(Gone(words)) = asked {
                tracing::error!("there is no hand host: {words}");
            }
        }
    }

    /// Asks a question that has an answer as long as there is a host.
    async fn ask<T: DeserializeOwned>(&self, method: Method, path: String) -> Result<T, Gone> {
        let came = self
            .client
            .ask::<T, String>(&Ask::new(method, path))
            .await?;
        came.answer.map_err(Gone)
    }

    /// Asks for something that a disk or driver may refuse.
    async fn try_ask<T: DeserializeOwned>(&self, method: Method, path: String) -> io::Result<T> {
        let asked = self.client.ask::<T, Fault>(&Ask::new(method, path)).await;
        let came = asked.map_err(io::Error::other)?;
        came.answer.map_err(io::Error::from)
    }

    /// Makes sure that there is a host before a stream is begun that cannot be begun again.
    async fn ready(&self) -> io::Result<()> {
        about(&self.client)
            .await
            .map(drop)
            .map_err(io::Error::other)
    }

    async fn send(
        &self,
        path: String,
        content: Reader,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> io::Result<()> {
        self.ready().await?;
        let sent = self.client.send::<Fault>(&path, content, headers).await?;
        sent.map_err(io::Error::from)
    }

    async fn receive(&self, path: String) -> io::Result<(hyper::HeaderMap, Reader)> {
        self.ready().await?;
        let came = self.client.open::<Fault>(&path).await?;
        let (head, body) = came.map_err(io::Error::from)?.into_parts();
        let chunks = body.into_data_stream().map_err(io::Error::other);
        Ok((head.headers, Box::pin(StreamReader::new(chunks))))
    }

    /// Makes the hand of an incarnation that lives.
    fn hand(&self, incarnation: IncarnationId, Alive { promise }: Alive) -> Arc<dyn Hand> {
        self.client.known().lives(incarnation, promise);
        self.spoken(incarnation, promise)
    }

    fn spoken(&self, incarnation: IncarnationId, promise: Promise) -> Arc<dyn Hand> {
        let client = Arc::clone(&self.client);
        Arc::new(RemoteHand::new(client, incarnation, promise))
    }
}

/// Asks what a host is.
async fn about(client: &Client) -> Result<About, Gone> {
    let ask = Ask::new(Method::GET, "/v1/host".to_owned());
    let came = client.ask::<About, String>(&ask).await?;
    came.answer.map_err(Gone)
}

/// Returns the path of an incarnation.
pub(super) fn path(incarnation: IncarnationId, below: &str) -> String {
    format!("/v1/hands/{incarnation}{below}")
}

/// Returns the path of a file, which must be named.
fn file(incarnation: IncarnationId, kind: &str, path: &str) -> io::Result<String> {
    if path.is_empty() {
        let words = "the path of a file is empty";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    }
    Ok(format!("/v1/hands/{incarnation}/{kind}/{}", escaped(path)))
}

/// Writes what goes to a host.
pub(super) fn body(value: &impl Serialize) -> Result<Bytes, serde_json::Error> {
    serde_json::to_vec(value).map(Bytes::from)
}

#[async_trait]
impl Provisioner for Remote {
    fn abilities(&self) -> Abilities {
        self.about.abilities
    }

    async fn provision(&self, recipe: &Recipe) -> Result<Arc<dyn Hand>, ProvisionError> {
        let incarnation = recipe.incarnation;
        let failed = |reason: String| ProvisionError::Step {
            incarnation,
            step: "ask the hand host".to_owned(),
            reason,
            mend: None,
        };
        let mut ask = Ask::new(Method::PUT, path(incarnation, ""));
        ask.body = body(recipe).map_err(|error| failed(error.to_string()))?;
        let asked = self.client.ask::<Alive, ProvisionError>(&ask).await;
        let came = asked.map_err(|Gone(words)| failed(words))?;
        Ok(self.hand(incarnation, came.answer?))
    }

    async fn find(&self, incarnation: IncarnationId) -> Option<Arc<dyn Hand>> {
        let found = self.ask::<Option<Alive>>(Method::GET, path(incarnation, ""));
        let Some(alive) = found.await.ok().flatten() else {
            self.client.known().forget(incarnation);
            return None;
        };
        Some(self.hand(incarnation, alive))
    }

    async fn fate(&self, incarnation: IncarnationId) -> Option<String> {
        // A host of an earlier version does not know.
        let asked = self.ask::<Option<String>>(Method::GET, path(incarnation, "/fate"));
        asked.await.ok().flatten()
    }

    fn known(&self, incarnation: IncarnationId) -> Option<Arc<dyn Hand>> {
        let promise = self.client.known().get(incarnation)?;
        Some(self.spoken(incarnation, promise))
    }

    async fn outlet(&self, incarnation: IncarnationId) -> io::Result<Option<TcpListener>> {
        let mut tried = 0;
        loop {
            // There is a host behind this, though it may end again.
            self.ready().await?;
            match outlets::ask(self.client.place(), incarnation).await {
                Err(error) if tried < TRIES => tracing::debug!("asked again: {error}"),
                asked => return asked,
            }
            tried += 1;
        }
    }

    fn silence(&self) -> Option<Silence> {
        self.client.pulse().silence()
    }

    async fn given_up(&self) -> Silence {
        self.client.pulse().hopeless().await
    }

    async fn recall(&self, incarnation: IncarnationId, call: EventId) -> Recalled {
        let path = path(incarnation, &format!("/calls/{call}"));
        let recalled = self.ask(Method::GET, path).await;
        recalled.unwrap_or(Recalled::Unknown)
    }

    async fn reap(&self, incarnation: IncarnationId, keep: Keep) -> Result<(), ReapError> {
        self.client.known().forget(incarnation);
        let keep = match keep {
            Keep::Nothing => "?keep=nothing",
            Keep::Layer => "?keep=layer",
        };
        let ask = Ask::new(Method::DELETE, path(incarnation, keep));
        let asked = self.client.ask::<(), ReapError>(&ask).await;
        let failed = |Gone(reason)| ReapError {
            incarnation,
            reason,
        };
        asked.map_err(failed)?.answer
    }

    async fn list(&self) -> Vec<IncarnationId> {
        let listed = self.ask(Method::GET, "/v1/hands".to_owned()).await;
        listed.unwrap_or_default()
    }

    async fn holds(&self, incarnation: IncarnationId) -> io::Result<bool> {
        let asked = self.ask(Method::GET, path(incarnation, "/holds")).await;
        asked.map_err(io::Error::other)
    }

    async fn checkpoint(&self, incarnation: IncarnationId) -> io::Result<Packed> {
        let (headers, content) = self.receive(path(incarnation, "/checkpoint")).await?;
        let sum = streams::read(&headers)?;
        Ok(Packed { sum, content })
    }

    async fn restore(
        &self,
        incarnation: IncarnationId,
        limits: &Limits,
        packed: Packed,
    ) -> io::Result<()> {
        let headers = [
            (HeaderName::from_static(SUM), streams::written(&packed.sum)?),
            (HeaderName::from_static(LIMITS), streams::written(limits)?),
        ];
        let path = path(incarnation, "/layer");
        self.send(path, packed.content, headers.into()).await
    }

    async fn place(
        &self,
        incarnation: IncarnationId,
        upload: &Upload,
        content: Reader,
    ) -> io::Result<()> {
        let path = file(incarnation, "uploads", &upload.path)?;
        let (id, bytes) = (escaped(&upload.id), upload.bytes);
        let path = format!("{path}?id={id}&bytes={bytes}");
        self.send(path, content, Vec::new()).await
    }

    async fn unplace(&self, incarnation: IncarnationId, path: &str) -> io::Result<()> {
        let path = file(incarnation, "uploads", path)?;
        self.try_ask(Method::DELETE, path).await
    }

    async fn uploads(&self, incarnation: IncarnationId) -> io::Result<Vec<Upload>> {
        self.try_ask(Method::GET, path(incarnation, "/uploads"))
            .await
    }

    async fn outputs(&self, incarnation: IncarnationId) -> io::Result<Vec<Published>> {
        self.try_ask(Method::GET, path(incarnation, "/outputs"))
            .await
    }

    async fn output(&self, incarnation: IncarnationId, path: &str) -> io::Result<Reader> {
        let path = file(incarnation, "outputs", path)?;
        Ok(self.receive(path).await?.1)
    }
}
