//! One connection out of a hand: HTTP, either to us as a proxy or within a tunnel.

use std::{convert::Infallible, sync::Arc};

use futures::{StreamExt as _, future::BoxFuture};
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Mutex,
    time::timeout,
};

use super::{
    answer::Answer,
    body::Body,
    bound::Hand,
    forward,
    framing::{Doubt, watched},
    options::{BUFFER, DRAINED, HEAD_BYTES, HEAD_LINES, REST, TELLING},
    place::{self, Place},
    slot::Slot,
    stream::Idle,
    tunnel,
    upstream::{Tls, Upstream},
};

/// One connection out of a hand.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) hand: Arc<Hand>,
    /// Where all of its requests go; none if each says it.
    tunnel: Option<Place>,
    /// What they go over.
    pub(crate) tls: Tls,
    pub(crate) upstream: Mutex<Option<Upstream>>,
    /// Held as long as anything of it is open.
    pub(crate) slot: Arc<Slot>,
    doubt: Doubt,
}

impl Client {
    /// Makes one that speaks to us as a proxy.
    pub(crate) fn proxy(hand: Arc<Hand>, slot: Arc<Slot>) -> Arc<Self> {
        Arc::new(Self {
            hand,
            tunnel: None,
            tls: Tls::No,
            upstream: Mutex::default(),
            slot,
            doubt: Doubt::default(),
        })
    }

    /// Makes one that speaks to a host within a tunnel.
    pub(crate) fn within(outer: &Self, place: Place, tls: Tls, upstream: Upstream) -> Arc<Self> {
        Arc::new(Self {
            hand: outer.hand.clone(),
            tunnel: Some(place),
            tls,
            upstream: Mutex::new(Some(upstream)),
            slot: outer.slot.clone(),
            doubt: Doubt::default(),
        })
    }

    /// Serves a socket that was accepted, to its end.
    pub(crate) async fn serve(self: Arc<Self>, stream: TcpStream) {
        let idle = self.hand.shared.options.idle;
        self.speak(Idle::new(stream, idle)).await;
    }

    /// Speaks HTTP over a stream, to its end.
    ///
    /// Boxed, because a tunnel within it speaks again.
    pub(crate) fn speak<S>(self: Arc<Self>, stream: S) -> BoxFuture<'static, ()>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let stream = watched(stream, self.doubt.clone());
        let service = service_fn(move |request| {
            let client = self.clone();
            async move { Ok::<_, Infallible>(client.answer(request).await) }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(REST)
            .half_close(true)
            .preserve_header_case(true)
            .auto_date_header(false)
            .max_headers(HEAD_LINES)
            .max_header_size(HEAD_BYTES)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        Box::pin(async move {
            if let Err(error) = served.await {
                tracing::debug!(%error, "a hand's connection broke off: {error}");
            }
        })
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        if self.doubt.is_there() {
            return self.doubtful();
        }
        match self.handle(request).await {
            Ok(response) => response,
            Err(answer) => answer.response(),
        }
    }

    async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Answer> {
        let place = match self.place(&request) {
            Ok(place) => place,
            Err(answer) => {
                self.hand.refused(None, &answer);
                drain(request).await;
                return Err(answer);
            }
        };
        let is_tunnel = request.method() == Method::CONNECT;
        let done = match self.allow(&place) {
            Err(answer) => {
                drain(request).await;
                Err(answer)
            }
            Ok(()) if is_tunnel => tunnel::open(&self, request, place.clone()).await,
            Ok(()) => forward::forward(&self, request, &place).await,
        };
        done.inspect_err(|answer| self.hand.refused(Some(&place), answer))
    }

    /// Answers a request that can be read in two ways; nothing behind it is read.
    fn doubtful(&self) -> Response<Body> {
        let words = "the request has both `Content-Length` and `Transfer-Encoding`";
        let answer = Answer::bad(words);
        self.hand.refused(None, &answer);
        let mut response = answer.response();
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
        response
    }

    /// Reads where a request goes.
    fn place(&self, request: &Request<Incoming>) -> Result<Place, Answer> {
        match &self.tunnel {
            None if request.method() == Method::CONNECT => place::of_tunnel(request),
            None => place::of_proxied(request),
            Some(_) if request.method() == Method::CONNECT => {
                Err(Answer::bad("CONNECT within a tunnel is not served"))
            }
            Some(place) => {
                place::within(request, place, self.tls.port())?;
                Ok(place.clone())
            }
        }
    }

    /// Asks the policy, where that was not done when the tunnel was opened.
    fn allow(&self, place: &Place) -> Result<(), Answer> {
        if self.tunnel.is_none() {
            let rule = self.hand.decide(&place.host)?;
            self.hand.allowed(place, rule.name(), None);
        }
        Ok(())
    }
}

/// Takes some of a body that nobody wants: its sender may read the answer only afterwards.
async fn drain(request: Request<Incoming>) {
    // Whoever waits to be told to send has sent nothing.
    if request.headers().contains_key(header::EXPECT) {
        return;
    }
    let mut left = DRAINED;
    let mut body = request.into_body().into_data_stream();
    let taken = async {
        while let Some(Ok(piece)) = body.next().await {
            left = match left.checked_sub(piece.len()) {
                Some(left) => left,
                None => return,
            };
        }
    };
    // Late or not, the answer is given now.
    drop(timeout(TELLING, taken).await);
}
