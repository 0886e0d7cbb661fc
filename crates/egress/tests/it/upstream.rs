//! Hosts on loopback: one that tells what it was asked, and one that speaks no HTTP.

use std::{
    convert::Infallible,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy},
    net::TcpListener,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

type Body = BoxBody<Bytes, Infallible>;

/// A host that ends with the test.
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    _task: JoinSet<()>,
}

impl Host {
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Starts one that speaks HTTP, over TLS if it is given a way to.
    pub(crate) async fn http(tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let tls = tls.map(TlsAcceptor::from);
        Self::each(move |stream| {
            let tls = tls.clone();
            async move {
                match tls {
                    None => speak(stream).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            speak(stream).await;
                        }
                    }
                }
            }
        })
        .await
    }

    /// Starts one that serves the files of a folder, to whoever has the key if there is one.
    pub(crate) async fn files(
        tls: Arc<rustls::ServerConfig>,
        root: PathBuf,
        key: Option<String>,
    ) -> Self {
        let (tls, shared) = (TlsAcceptor::from(tls), Arc::new((root, key)));
        Self::each(move |stream| {
            let (tls, shared) = (tls.clone(), shared.clone());
            async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = service_fn(move |request| {
                    let shared = shared.clone();
                    async move { Ok::<_, Infallible>(file(&request, &shared.0, shared.1.as_deref())) }
                });
                let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                drop(served.await);
            }
        })
        .await
    }

    /// Starts one that gives back what it gets.
    pub(crate) async fn echo() -> Self {
        Self::each(|mut stream| async move {
            let (mut read, mut write) = stream.split();
            drop(copy(&mut read, &mut write).await);
            drop(write.shutdown().await);
        })
        .await
    }

    /// Starts one that says something, whatever it is asked, and closes.
    pub(crate) async fn saying(text: &'static str) -> Self {
        Self::each(move |mut stream| async move {
            drop(stream.write_all(text.as_bytes()).await);
            drop(stream.shutdown().await);
            drop(tokio::io::copy(&mut stream, &mut tokio::io::sink()).await);
        })
        .await
    }

    /// Starts one that does something with each connection.
    pub(crate) async fn each<F, D>(serve: F) -> Self
    where
        F: Fn(tokio::net::TcpStream) -> D + Send + Sync + 'static,
        D: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream));
            }
        });
        Self {
            address,
            _task: task,
        }
    }
}

async fn speak<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: S) {
    let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(request).await) });
    let served = http1::Builder::new()
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    drop(served.await);
}

fn file(request: &Request<Incoming>, root: &Path, key: Option<&str>) -> Response<Body> {
    let status = |status| {
        let mut response = Response::new(full(""));
        *response.status_mut() = status;
        response
    };
    let given = request.headers().get(header::AUTHORIZATION);
    if key.is_some_and(|key| given.is_none_or(|given| given != key)) {
        return status(StatusCode::UNAUTHORIZED);
    }
    let path = root.join(request.uri().path().trim_matches('/'));
    let path = if path.is_dir() {
        path.join("index.html")
    } else {
        path
    };
    let is_page = path.extension().is_some_and(|kind| kind == "html");
    match std::fs::read(path) {
        Err(_) => status(StatusCode::NOT_FOUND),
        Ok(bytes) => {
            let mut response = Response::new(full(bytes));
            let kind = if is_page {
                "text/html"
            } else {
                "application/octet-stream"
            };
            let kind = HeaderValue::from_static(kind);
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
    }
}

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed()
}

async fn answer(mut request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/redirect" => redirect(&request),
        "/chunks" => chunks(),
        "/brotli" => brotli(),
        "/gzip" => gzip(request).await,
        "/sums" => sums(request).await,
        "/headers" => headers(&request),
        "/upgrade" => upgrade(&mut request),
        "/body" => Response::new(full(
            request.into_body().collect().await.unwrap().to_bytes(),
        )),
        path => match path.strip_prefix("/zeros/") {
            Some(count) => zeros(count.parse().unwrap()),
            None => told(request).await,
        },
    }
}

/// Tells the request, line by line: what stands in it, and its body.
async fn told(request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut text = format!("{} {} {:?}\n", parts.method, parts.uri, parts.version);
    for (name, value) in &parts.headers {
        text += &format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()));
    }
    let Ok(body) = body.collect().await else {
        return Response::new(full("the body broke off"));
    };
    let trailers = body.trailers().cloned().unwrap_or_default();
    text += &format!("\n{}", String::from_utf8_lossy(&body.to_bytes()));
    for (name, value) in &trailers {
        text += &format!(
            "\ntrailer {name}: {}",
            String::from_utf8_lossy(value.as_bytes())
        );
    }
    Response::new(full(text))
}

/// Sends its caller to where a header says.
fn redirect(request: &Request<Incoming>) -> Response<Body> {
    let mut response = Response::new(full("elsewhere"));
    *response.status_mut() = StatusCode::FOUND;
    let to = request.headers().get("x-to").cloned();
    let to = to.unwrap_or_else(|| HeaderValue::from_static("/"));
    response.headers_mut().insert(header::LOCATION, to);
    response
}

/// Gives back the request's headers as headers.
fn headers(request: &Request<Incoming>) -> Response<Body> {
    let mut response = Response::new(full("in the headers"));
    for name in ["authorization", "x-key"] {
        if let Some(value) = request.headers().get(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// Tells sums of the bytes of what may have a secret, which are no form of it.
async fn sums(request: Request<Incoming>) -> Response<Body> {
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let mut text = String::new();
    for name in ["authorization", "x-key"] {
        if let Some(value) = request.headers().get(name) {
            text += &format!("{name} {}\n", sum(value.as_bytes()));
        }
    }
    let body = request.into_body().collect().await.unwrap().to_bytes();
    text += &format!("body {}\n", sum(&body));
    Response::new(full(text))
}

/// Says that it is packed in a way that is not unpacked here.
fn brotli() -> Response<Body> {
    let mut response = Response::new(full("?"));
    let br = HeaderValue::from_static("br");
    response.headers_mut().insert(header::CONTENT_ENCODING, br);
    response
}

/// Gives back the request's body in gzip, whatever was asked for.
async fn gzip(request: Request<Incoming>) -> Response<Body> {
    use std::io::Write as _;
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&body).unwrap();
    let mut response = Response::new(full(encoder.finish().unwrap()));
    let gzip = HeaderValue::from_static("gzip");
    response
        .headers_mut()
        .insert(header::CONTENT_ENCODING, gzip);
    response
}

/// Answers in chunks, with something behind them.
fn chunks() -> Response<Body> {
    let pieces = ["one ", "two ", "three"].map(|piece| Ok(Frame::data(Bytes::from(piece))));
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("3"));
    let frames = pieces.into_iter().chain([Ok(Frame::trailers(trailers))]);
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(stream::iter(frames))));
    let sum = HeaderValue::from_static("x-sum");
    response.headers_mut().insert(header::TRAILER, sum);
    response
}

/// Becomes an echo.
fn upgrade(request: &mut Request<Incoming>) -> Response<Body> {
    let upgraded = hyper::upgrade::on(request);
    #[expect(clippy::disallowed_methods, reason = "ends with its connection")]
    tokio::spawn(async move {
        let Ok(upgraded) = upgraded.await else { return };
        let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
        drop(copy(&mut read, &mut write).await);
        drop(write.shutdown().await);
    });
    let mut response = Response::new(full(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let upgrade = HeaderValue::from_static("upgrade");
    response.headers_mut().insert(header::CONNECTION, upgrade);
    let echo = HeaderValue::from_static("websocket");
    response.headers_mut().insert(header::UPGRADE, echo);
    response
}

/// Sends so many bytes of nothing.
fn zeros(count: usize) -> Response<Body> {
    const PIECE: usize = 64 << 10;
    let pieces = stream::iter(0..count.div_ceil(PIECE)).map(move |at| {
        let left = count - at * PIECE;
        Ok(Frame::data(Bytes::from(vec![0; left.min(PIECE)])))
    });
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(pieces)));
    let length = HeaderValue::from(count);
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, length);
    response
}
