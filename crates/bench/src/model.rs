//! A Messages endpoint on loopback that notes when requests arrive and when it answers.

mod answer;

use std::{convert::Infallible, net::SocketAddr};

use anyhow::{Result, anyhow};
use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, StreamBody, combinators::BoxBody};
use hyper::{
    Request, Response,
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::{Instant, timeout},
};

pub(crate) use answer::Ask;

/// How long a request may take to come before a run gives up.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// A request as the endpoint saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// When its head arrived.
    pub(crate) arrived: Instant,
    /// When the first bytes of the answer were handed to the socket.
    pub(crate) answered: Instant,
    /// Bytes of its body.
    pub(crate) bytes: usize,
}

/// A running endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    seen: mpsc::UnboundedReceiver<Seen>,
    _accepting: JoinSet<()>,
}

impl Endpoint {
    /// Starts one.
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (notes, seen) = mpsc::unbounded_channel();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, notes));
        Ok(Self {
            address,
            seen,
            _accepting: accepting,
        })
    }

    /// Returns what a server calls its upstream.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for the next answered request.
    pub(crate) async fn next(&mut self) -> Result<Seen> {
        let next = timeout(PATIENCE, self.seen.recv()).await;
        next.map_err(|_| anyhow!("no model request came"))?
            .ok_or_else(|| anyhow!("it ended"))
    }

    /// Forgets what was seen so far.
    pub(crate) fn clear(&mut self) {
        while self.seen.try_recv().is_ok() {}
    }
}

async fn accept(listener: TcpListener, notes: mpsc::UnboundedSender<Seen>) {
    let mut serving = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        serving.spawn(serve(stream, notes.clone()));
        while serving.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, notes: mpsc::UnboundedSender<Seen>) {
    drop(stream.set_nodelay(true));
    let service = service_fn(move |request| respond(request, notes.clone()));
    // A peer that goes away is no news.
    drop(
        http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await,
    );
}

/// Answers a request as the newest `bench:` line in it asks.
async fn respond(
    request: Request<Incoming>,
    notes: mpsc::UnboundedSender<Seen>,
) -> Result<Response<BoxBody<Bytes, hyper::Error>>> {
    let arrived = Instant::now();
    let body = request.into_body().collect().await?.to_bytes();
    let ask = Ask::of(&body)?;
    let frames = ask.answer();
    ask.wait().await;
    let seen = Seen {
        arrived,
        answered: Instant::now(),
        bytes: body.len(),
    };
    // Nobody listens any more while a run ends.
    let _ = notes.send(seen);
    let frames = frames.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
    let body = StreamBody::new(frames).map_err(|never| match never {});
    Ok(Response::builder()
        .header("content-type", "text/event-stream")
        .body(BoxBody::new(body))?)
}
