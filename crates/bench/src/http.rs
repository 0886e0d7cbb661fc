//! One kept HTTP/1.1 connection: as little as possible between the clock and the socket.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, Response,
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinSet};

/// The key that servers under measurement are given; it opens nothing else.
pub(crate) const KEY: &str = "outlast-bench-key-0123456789";

/// A connection that sends one request after another.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    /// Ends with this.
    _driver: JoinSet<()>,
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .context("cannot connect")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        Ok(Self {
            sender,
            host: address.to_string(),
            _driver: driver,
        })
    }

    /// Sends a request; the answer's body is still to be read.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("x-api-key", KEY)
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    ///
    /// Any status but 2xx too, with the words of the answer.
    pub(crate) async fn call(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let response = self.send(method, path, body).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            bail!("{path}: {status}: {}", String::from_utf8_lossy(&bytes));
        }
        Ok(bytes)
    }

    /// Sends an object and reads one.
    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Result<Value> {
        let body = Bytes::from(serde_json::to_vec(body)?);
        Ok(serde_json::from_slice(
            &self.call(Method::POST, path, body).await?,
        )?)
    }

    /// Reads an object.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Value> {
        Ok(serde_json::from_slice(
            &self.call(Method::GET, path, Bytes::new()).await?,
        )?)
    }
}
