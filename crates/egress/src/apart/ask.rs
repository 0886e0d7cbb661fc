//! Requests of a server to the egress process, each over a connection of its own: a socket of the same
//! machine costs next to nothing, and nothing is left over that may be half-read.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    client::conn::http1,
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use outlast_vault::Declined;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use zeroize::Zeroizing;

use super::{Peer, wire::SERVER};

/// What goes to the egress process.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// How long it may take to say something that it asks nobody for but our own store.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// How long it may take to ask others, or to go through all records.
pub(super) const LONG: Duration = Duration::from_secs(600);

/// A domain error: what was asked was understood, and this came of it.
pub(super) const FAILED: StatusCode = StatusCode::CONFLICT;

/// What asks.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub(super) peer: Peer,
    /// The name of this server.
    pub(super) server: Arc<str>,
    tasks: TaskTracker,
}

impl Asker {
    pub(super) fn new(peer: Peer, server: Arc<str>) -> Self {
        let tasks = TaskTracker::new();
        Self {
            peer,
            server,
            tasks,
        }
    }

    /// Begins a request; who asks is added.
    pub(super) fn request(&self, method: Method, path: &str) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "egress")
            .header(SERVER, &*self.server)
    }

    /// Sends a request; the answer's head is there when this returns.
    pub(super) async fn send(&self, request: Request<Body>) -> io::Result<Response<Incoming>> {
        let stream = self.peer.connect(&self.peer.socket).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        // Whoever waits for an answer is told by the sender; one that is turned around goes on.
        self.tasks
            .spawn(async move { drop(connection.with_upgrades().await) });
        sender.send_request(request).await.map_err(io::Error::other)
    }

    /// Asks for something in JSON.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        what: &impl Serialize,
    ) -> Result<T, Declined> {
        self.ask_for(PATIENCE, path, json(what)).await
    }

    /// Asks for something in JSON that is written already, and is overwritten once it was sent.
    pub(super) async fn ask_for<T: DeserializeOwned>(
        &self,
        patience: Duration,
        path: &str,
        bytes: Zeroizing<Vec<u8>>,
    ) -> Result<T, Declined> {
        match timeout(patience, self.once(path, bytes)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Err(self.away(&error)),
            Err(_) => {
                let seconds = patience.as_secs();
                let late = io::Error::other(format!("it did not answer within {seconds} s"));
                Err(self.away(&late))
            }
        }
    }

    async fn once<T: DeserializeOwned>(
        &self,
        path: &str,
        bytes: Zeroizing<Vec<u8>>,
    ) -> io::Result<Result<T, Declined>> {
        // Owned as it is, so that no copy of it stays.
        let body = Full::new(Bytes::from_owner(bytes)).map_err(|never| match never {});
        let request = self
            .request(Method::POST, path)
            .header(CONTENT_TYPE, "application/json")
            .body(body.boxed_unsync())
            .map_err(io::Error::other)?;
        let answer = self.send(request).await?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await;
        let bytes = bytes.map_err(io::Error::other)?.to_bytes();
        match status {
            StatusCode::OK => Ok(Ok(serde_json::from_slice(&bytes)?)),
            FAILED => Ok(Err(serde_json::from_slice(&bytes)?)),
            _ => {
                let words = String::from_utf8_lossy(&bytes);
                Err(io::Error::other(format!("it answered {status}: {words}")))
            }
        }
    }

    /// Says that nobody can use a secret now, and what to do.
    pub(super) fn away(&self, error: &io::Error) -> Declined {
        Declined::Locked(self.words(error))
    }

    pub(super) fn words(&self, error: &io::Error) -> String {
        let socket = self.peer.socket.display();
        let words = format!("the egress process is not reached at `{socket}` ({error})");
        let is_absent = matches!(
            error.kind(),
            io::ErrorKind::NotFound
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset
        );
        if !is_absent {
            return words;
        }
        let user = self.peer.user;
        format!("{words}; start `outlast serve --roles egress` as user {user}")
    }
}

/// Writes what has no secret in it.
pub(super) fn json(what: &impl Serialize) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(serde_json::to_vec(what).unwrap_or_default())
}
