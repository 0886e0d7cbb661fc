//! The other side of a connection: opened when it is needed, used again while it holds.

use std::{error::Error as _, io, sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use outlast_reach::Host;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{
    answer::Answer,
    body::Body,
    bound::Hand,
    options::{BUFFER, HEAD, HEAD_BYTES, HEAD_LINES},
    place::{HTTP, HTTPS, Place},
    stream::Idle,
};

/// How long a connection that is used again may take to be ready for that.
const READY: Duration = Duration::from_secs(1);

/// What requests go over.
#[derive(Clone, Debug)]
pub(crate) enum Tls {
    /// Nothing: plain HTTP.
    No,
    /// TLS, which is opened here and closed again.
    Opened(Arc<ClientConfig>),
}

impl Tls {
    /// Returns the port that goes without saying.
    pub(crate) fn port(&self) -> u16 {
        match self {
            Self::No => HTTP,
            Self::Opened(_) => HTTPS,
        }
    }
}

/// The other side of a connection.
#[derive(Debug)]
pub(crate) struct Upstream {
    hand: Arc<Hand>,
    place: Place,
    tls: Tls,
    /// Connected, and nothing was said yet.
    fresh: Option<TcpStream>,
    kept: Option<SendRequest<Body>>,
}

impl Upstream {
    pub(crate) fn new(hand: Arc<Hand>, place: Place, tls: Tls, fresh: Option<TcpStream>) -> Self {
        Self {
            hand,
            place,
            tls,
            fresh,
            kept: None,
        }
    }

    /// Tells whether it leads there.
    pub(crate) fn leads_to(&self, place: &Place) -> bool {
        self.place == *place
    }

    /// Sends a request, over the connection of the last one if that still holds.
    ///
    /// # Errors
    ///
    /// The answer, if there is no response.
    pub(crate) async fn send(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, Answer> {
        let (mut sender, mut request) = match self.reused().await {
            None => (self.open().await?, request),
            Some(mut sender) => match sender.try_send_request(request).await {
                Ok(response) => {
                    self.kept = Some(sender);
                    return Ok(response);
                }
                // Closed meanwhile, and nothing of the request was written: it is sent anew.
                Err(mut error) => match error.take_message() {
                    Some(request) => (self.open().await?, request),
                    None => return Err(self.broke(error.error())),
                },
            },
        };
        *request.version_mut() = http::Version::HTTP_11;
        let sent = sender.send_request(request).await;
        let response = sent.map_err(|error| self.broke(&error))?;
        self.kept = Some(sender);
        Ok(response)
    }

    /// Returns the connection of the last request, if it holds and is through with that.
    async fn reused(&mut self) -> Option<SendRequest<Body>> {
        let mut kept = self.kept.take()?;
        let ready = timeout(READY, kept.ready()).await;
        matches!(ready, Ok(Ok(()))).then_some(kept)
    }

    async fn open(&mut self) -> Result<SendRequest<Body>, Answer> {
        let stream = match self.fresh.take() {
            Some(stream) => stream,
            None => self.hand.connect(&self.place).await?,
        };
        let stream = Idle::new(stream, self.hand.shared.options.idle);
        match self.tls.clone() {
            Tls::No => self.speak(stream).await,
            Tls::Opened(config) => {
                let stream = TlsConnector::from(config).connect(self.name()?, stream);
                let opened = timeout(HEAD, stream).await.map_err(|_| self.late())?;
                let stream = opened.map_err(|error| self.untrusted(&error))?;
                self.speak(stream).await
            }
        }
    }

    async fn speak<S>(&self, stream: S) -> Result<SendRequest<Body>, Answer>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let begun = http1::Builder::new()
            .preserve_header_case(true)
            .max_headers(HEAD_LINES)
            .max_header_size(HEAD_BYTES)
            .max_buf_size(BUFFER)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, connection) = begun.map_err(|error| self.broke(&error))?;
        self.hand.spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection of a hand's request broke off: {error}");
            }
        });
        Ok(sender)
    }

    fn name(&self) -> Result<ServerName<'static>, Answer> {
        match &self.place.host {
            Host::Address(address) => Ok(ServerName::IpAddress((*address).into())),
            Host::Name(name) => ServerName::try_from(name.clone())
                .map_err(|_| Answer::bad(format!("`{name}` is no name that TLS can ask for"))),
        }
    }

    fn late(&self) -> Answer {
        let host = &self.place.host;
        Answer::upstream(format!("`{host}` did not finish its TLS handshake"))
    }

    fn untrusted(&self, error: &io::Error) -> Answer {
        let host = &self.place.host;
        Answer::upstream(format!(
            "TLS with `{host}` failed, nothing was sent: {error}; this server checks the certificates of \
             hosts that a credential is for, and trusts its machine's authorities and those in \
             `egress.authorities`"
        ))
    }

    /// Says what broke: the body that the client sends, or the other side.
    fn broke(&self, error: &hyper::Error) -> Answer {
        let cause = error.source().map(|cause| format!(": {cause}"));
        let cause = cause.unwrap_or_default();
        if error.is_user() {
            return Answer::bad(format!("the request's body broke off: {error}{cause}"));
        }
        let place = self.place.host.with_port(self.place.port);
        Answer::upstream(format!(
            "no answer of `{place}` that can be passed on: {error}{cause}"
        ))
    }
}
