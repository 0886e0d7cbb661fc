//! The reading end of a stream of events.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{Method, body::Incoming};
use tokio::time::Instant;

use crate::http::Connection;

/// An open stream.
#[derive(Debug)]
pub(crate) struct Stream {
    body: Incoming,
    /// What came and is no whole frame yet.
    rest: Vec<u8>,
    _connection: Connection,
}

impl Stream {
    /// Follows a session from its head on, with previews of messages.
    pub(crate) async fn of_session(address: SocketAddr, session: &str) -> Result<Self> {
        let path = format!("/v1/sessions/{session}/events/stream?event_deltas[]=agent.message");
        Self::open(
            Connection::open(address).await?,
            Method::GET,
            &path,
            Bytes::new(),
        )
        .await
    }

    /// Sends a request whose answer is a stream.
    pub(crate) async fn open(
        mut connection: Connection,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Self> {
        let response = connection.send(method, path, body).await?;
        if !response.status().is_success() {
            bail!("{path}: {}", response.status());
        }
        Ok(Self {
            body: response.into_body(),
            rest: Vec::new(),
            _connection: connection,
        })
    }

    /// Waits for the next frame whose event has that name; returns when it had come.
    pub(crate) async fn until(&mut self, name: &str) -> Result<Instant> {
        let wanted = format!("event: {name}\n");
        let mut came = Instant::now();
        loop {
            while let Some(frame) = self.take() {
                if frame.starts_with(wanted.as_bytes()) {
                    return Ok(came);
                }
            }
            let Some(chunk) = self.body.frame().await else {
                bail!("the stream ended")
            };
            came = Instant::now();
            if let Ok(bytes) = chunk?.into_data() {
                self.rest.extend_from_slice(&bytes);
            }
        }
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let end = self.rest.windows(2).position(|pair| pair == b"\n\n")?;
        let frame = self.rest.drain(..end + 2).collect();
        Some(frame)
    }
}
