//! `CONNECT`: what a tunnel may carry, and to whom.

use std::{io, sync::Arc};

use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::timeout};
use tokio_rustls::TlsAcceptor;

use super::{
    answer::Answer,
    body::Body,
    bound::Opening,
    client::Client,
    framing::Watched,
    hello::{self, Start},
    options::HEAD,
    place::Place,
    relay::relay,
    stream::{Idle, Rewind},
    upstream::{Tls, Upstream},
};
use crate::metric_definitions as metrics;

/// What the client speaks through.
type Inner = Rewind<Idle<TcpStream>>;

/// Connects to where a tunnel leads, and serves it once the client knows.
///
/// # Errors
///
/// The answer, if it cannot be connected to.
pub(crate) async fn open(
    client: &Arc<Client>,
    mut request: Request<Incoming>,
    place: Place,
) -> Result<Response<Body>, Answer> {
    ::metrics::counter!(metrics::REQUESTS_OUT, "way" => "tunnel").increment(1);
    let opening = client.hand.opening(&place).await?;
    let upstream = client.hand.connect(&place).await?;
    let upgrade = hyper::upgrade::on(&mut request);
    let tunnel = Tunnel {
        client: client.clone(),
        place,
        opening,
    };
    client.hand.spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let Some(inner) = inner(upgraded) else { return };
        if let Err(error) = tunnel.serve(inner, upstream).await {
            tracing::debug!(%error, "a tunnel of a hand broke off: {error}");
        }
    });
    let empty = Empty::new().map_err(|never| match never {});
    Ok(Response::new(empty.boxed_unsync()))
}

/// Returns the socket behind an upgrade, with what was read of it too early.
fn inner(upgraded: Upgraded) -> Option<Inner> {
    let parts = upgraded
        .downcast::<TokioIo<Watched<Idle<TcpStream>>>>()
        .ok()?;
    let socket = parts.io.into_inner().into_inner();
    Some(Rewind::new(parts.read_buf, socket))
}

#[derive(Debug)]
struct Tunnel {
    client: Arc<Client>,
    place: Place,
    /// How it is opened, if a credential may go there.
    opening: Option<Opening>,
}

impl Tunnel {
    /// Serves a tunnel by what it begins with.
    async fn serve(&self, mut inner: Inner, upstream: TcpStream) -> io::Result<()> {
        let Some(start) = self.start(&mut inner, &upstream).await? else {
            return self.pass(inner, upstream).await;
        };
        match start {
            Start::Nothing => self.pass(inner, upstream).await,
            Start::Tls(name) if hello::is_for(name.as_deref(), &self.place.host) => {
                match &self.opening {
                    Some(opening) => self.open(inner, upstream, opening).await,
                    None => self.pass(inner, upstream).await,
                }
            }
            Start::Tls(name) => self.refuse(inner, name.as_deref()).await,
            // Served as HTTP, which refuses what is none.
            Start::Other | Start::Broken if self.client.hand.policy.is_limited() => {
                self.plain(inner, upstream).await;
                Ok(())
            }
            Start::Other | Start::Broken => self.pass(inner, upstream).await,
        }
    }

    /// Looks at what comes first; none if the other side speaks first and may do so.
    async fn start(&self, inner: &mut Inner, upstream: &TcpStream) -> io::Result<Option<Start>> {
        let may_greet = !self.client.hand.policy.is_limited();
        let greeted = async {
            match may_greet {
                true => upstream.peek(&mut [0]).await.map(drop),
                false => std::future::pending().await,
            }
        };
        if inner.seen().is_empty() {
            tokio::select! {
                biased;
                seen = inner.look() => if seen? == 0 { return Ok(Some(Start::Nothing)) },
                greeted = greeted => { greeted?; return Ok(None) },
            }
        }
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let start = timeout(HEAD, hello::look(inner)).await.map_err(late)??;
        Ok(Some(start))
    }

    /// Lets through what both say, as it is.
    async fn pass(&self, inner: Inner, upstream: TcpStream) -> io::Result<()> {
        let (seen, client) = inner.into_parts();
        let idle = self.client.hand.shared.options.idle;
        relay(seen, client.into_inner(), upstream, idle).await
    }

    /// Ends the client's TLS here, and speaks for it with the host.
    async fn open(&self, inner: Inner, upstream: TcpStream, opening: &Opening) -> io::Result<()> {
        let accepting = TlsAcceptor::from(opening.serving.clone()).accept(inner);
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let stream = timeout(HEAD, accepting).await.map_err(late)??;
        let tls = Tls::Opened(opening.asking.clone());
        let (hand, place) = (self.client.hand.clone(), self.place.clone());
        let upstream = Upstream::new(hand, place.clone(), tls.clone(), Some(upstream));
        Client::within(&self.client, place, tls, upstream)
            .speak(stream)
            .await;
        Ok(())
    }

    /// Speaks HTTP with a client that wants no TLS.
    async fn plain(&self, inner: Inner, upstream: TcpStream) {
        let hand = self.client.hand.clone();
        let upstream = Upstream::new(hand, self.place.clone(), Tls::No, Some(upstream));
        let within = Client::within(&self.client, self.place.clone(), Tls::No, upstream);
        within.speak(inner).await;
    }

    /// Ends a handshake that asks for another host, in the words of TLS.
    async fn refuse(&self, mut inner: Inner, name: Option<&str>) -> io::Result<()> {
        let host = &self.place.host;
        let name = name.unwrap_or("no name");
        let words = format!("TLS asks for `{name}` in a tunnel to `{host}`");
        let answer = Answer::forbidden("sni_mismatch", words);
        self.client.hand.refused(Some(&self.place), &answer);
        inner.write_all(&hello::UNRECOGNIZED).await?;
        inner.shutdown().await
    }
}
