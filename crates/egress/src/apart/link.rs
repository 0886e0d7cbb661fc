//! Connections of a server that are turned around: over them the egress asks the server's store.

use std::{convert::Infallible, io, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONNECTION, UPGRADE},
    server::conn::http1,
    service::service_fn,
    upgrade::Upgraded,
};
use outlast_protocol::audit::Entry;
use outlast_store::{ReadError, WriteError};
use outlast_vault::Records;
use tokio::task::JoinSet;

use super::{
    ask::Asker,
    wire::{Ask, HELLO, Hello, PROTOCOL, Told},
};

/// How many questions may be on their way at once.
const LINKS: usize = 8;

/// Is told of each decision about what leaves a sandbox.
pub(super) type Noted = Arc<dyn Fn(Entry) + Send + Sync>;

/// What is asked over links.
#[derive(Clone)]
pub(super) struct Answers {
    pub(super) records: Records,
    pub(super) noted: Noted,
}

/// Links that stand; dropped, they are closed.
pub(super) struct Links(JoinSet<()>);

impl Links {
    /// Opens them all.
    pub(super) async fn open(asker: &Asker, hello: &Hello, answers: &Answers) -> io::Result<Self> {
        let mut links = JoinSet::new();
        for _ in 0..LINKS {
            let turned = turn_around(asker, hello).await?;
            let answers = answers.clone();
            links.spawn(async move { serve(turned, answers).await });
        }
        Ok(Self(links))
    }

    /// Waits until one breaks.
    pub(super) async fn broken(&mut self) {
        drop(self.0.join_next().await);
    }
}

async fn turn_around(asker: &Asker, hello: &Hello) -> io::Result<Upgraded> {
    let request = asker
        .request(Method::POST, "/link")
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, PROTOCOL)
        .header(HELLO, serde_json::to_string(hello)?);
    let body = Empty::<Bytes>::new().map_err(|never: Infallible| match never {});
    let request = request
        .body(body.boxed_unsync())
        .map_err(io::Error::other)?;
    let mut answer = asker.send(request).await?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        return hyper::upgrade::on(&mut answer)
            .await
            .map_err(io::Error::other);
    }
    let bytes = answer.into_body().collect().await;
    let bytes = bytes.map_err(io::Error::other)?.to_bytes();
    Err(io::Error::other(
        String::from_utf8_lossy(&bytes).into_owned(),
    ))
}

/// Answers over one link until it breaks.
async fn serve(turned: Upgraded, answers: Answers) {
    let service = service_fn(|request: Request<Incoming>| {
        let answers = answers.clone();
        async move {
            let told = match request.into_body().collect().await {
                Ok(body) => told(&answers, &body.to_bytes()).await,
                Err(error) => Told::Failed(error.to_string()),
            };
            let bytes = serde_json::to_vec(&told).unwrap_or_default();
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(bytes))))
        }
    });
    let served = http1::Builder::new().serve_connection(turned, service);
    if let Err(error) = served.await {
        tracing::debug!("a link to the egress process broke: {error}");
    }
}

async fn told(answers: &Answers, bytes: &[u8]) -> Told {
    let asked = match serde_json::from_slice(bytes) {
        Ok(asked) => asked,
        Err(error) => return Told::Failed(format!("it is not understood: {error}")),
    };
    let Answers { records, noted } = answers;
    let secrets = &*records.secrets;
    let read = |error: ReadError| Told::Failed(error.to_string());
    let done = |done: Result<bool, WriteError>| match done {
        Ok(done) => Told::Done(done),
        Err(error) => Told::Failed(error.to_string()),
    };
    match asked {
        Ask::Secret(owner) => secrets.secret(&owner).await.map_or_else(read, Told::Secret),
        Ask::Secrets { after, limit } => {
            let found = secrets.secrets(after.as_deref(), limit).await;
            found.map_or_else(read, Told::Secrets)
        }
        Ask::Credentials(vault) => {
            let found = records.registry.credentials(vault).await;
            found.map_or_else(read, Told::Credentials)
        }
        Ask::Replace(new) => done(secrets.replace_secret(new).await),
        Ask::Rewrap { from, new } => done(secrets.rewrap_secret(&from, new).await),
        Ask::Claim {
            owner,
            revision,
            now,
            until,
        } => done(secrets.claim_refresh(&owner, revision, now, until).await),
        Ask::EndRefresh {
            owner,
            revision,
            until,
        } => {
            let ended = secrets.end_refresh(&owner, revision, until).await;
            done(ended.map(|()| true))
        }
        Ask::Note(entries) => {
            for entry in entries {
                noted(entry);
            }
            Told::Done(true)
        }
    }
}
