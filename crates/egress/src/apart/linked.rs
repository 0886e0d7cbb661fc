//! A server's store, as the egress process has it: asked over the links of whichever server is there.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request,
    client::conn::http1::{self, SendRequest},
    header::HOST,
    upgrade::Upgraded,
};
use outlast_protocol::{Micros, credential::Credential, id::VaultId};
use outlast_store::{Away, ReadError, SealedSecret, Secrets, WriteError};
use outlast_vault::{Records, Registry};
use tokio::{
    sync::Notify,
    time::{Instant, timeout, timeout_at},
};

use super::wire::{Ask, Told};

/// How long a link is waited for, and an answer over it.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(20));

/// The longest answer, in bytes; a page of records is far from it.
const LONGEST: usize = 16 << 20;

/// The links that stand. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Linked(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    free: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    /// Told when one is free.
    freed: Notify,
}

/// What breaks a link.
type Broken = Box<dyn std::error::Error + Send + Sync>;

impl Linked {
    /// Returns what a vault works with.
    pub(super) fn records(&self) -> Records {
        Records {
            secrets: Arc::new(self.clone()),
            registry: Arc::new(self.clone()),
        }
    }

    /// Takes a link in, and has it until it breaks.
    pub(super) async fn hold(&self, turned: Upgraded) {
        let Ok((sender, connection)) = http1::handshake(turned).await else {
            return;
        };
        self.give(sender);
        drop(connection.await);
        // One that waits to be used is closed by now.
        self.free().retain(|sender| !sender.is_closed());
    }

    fn free(&self) -> MutexGuard<'_, Vec<SendRequest<Full<Bytes>>>> {
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, sender: SendRequest<Full<Bytes>>) {
        self.free().push(sender);
        self.0.freed.notify_one();
    }

    /// Takes a link that nobody uses.
    async fn take(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let until = Instant::now() + PATIENCE.0;
        loop {
            let freed = self.0.freed.notified();
            let taken = self.free().pop();
            if let Some(mut sender) = taken {
                if sender.ready().await.is_ok() {
                    return Ok(sender);
                }
                continue;
            }
            let waited = timeout_at(until, freed).await;
            waited.map_err(|_| "no server is linked to the egress process".to_owned())?;
        }
    }

    /// Asks once.
    pub(super) async fn ask(&self, ask: &Ask) -> Result<Told, String> {
        let mut sender = self.take().await?;
        let bytes = serde_json::to_vec(ask).map_err(|error| error.to_string())?;
        let request = Request::post("/records")
            .header(HOST, "server")
            .body(Full::new(Bytes::from(bytes)))
            .map_err(|error| error.to_string())?;
        let asked = async {
            let answer = sender.send_request(request).await?;
            let body = Limited::new(answer.into_body(), LONGEST).collect();
            Ok::<_, Broken>(body.await?.to_bytes())
        };
        let bytes = match timeout(PATIENCE.1, asked).await {
            Ok(Ok(bytes)) => bytes,
            // The link is dropped: its answer may still come.
            Ok(Err(error)) => return Err(format!("the link to the server broke: {error}")),
            Err(_) => return Err("the server does not answer".to_owned()),
        };
        self.give(sender);
        let told = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        if let Told::Failed(reason) = told {
            return Err(reason);
        }
        Ok(told)
    }

    async fn read(&self, ask: Ask) -> Result<Told, ReadError> {
        let told = self.ask(&ask).await;
        told.map_err(|reason| ReadError::Unavailable(Away::other(reason)))
    }

    async fn done(&self, ask: Ask) -> Result<bool, WriteError> {
        let away = |reason| WriteError::Unavailable(Away::other(reason));
        let Told::Done(done) = self.ask(&ask).await.map_err(away)? else {
            return Err(away(OTHER.to_owned()));
        };
        Ok(done)
    }
}

/// What is said of an answer to another question.
const OTHER: &str = "the server answered something else";

fn other<T>() -> Result<T, ReadError> {
    Err(ReadError::Unreadable(OTHER.to_owned()))
}

#[async_trait]
impl Secrets for Linked {
    async fn secret(&self, owner: &str) -> Result<Option<SealedSecret>, ReadError> {
        let Told::Secret(found) = self.read(Ask::Secret(owner.to_owned())).await? else {
            return other();
        };
        Ok(found)
    }

    async fn replace_secret(&self, new: SealedSecret) -> Result<bool, WriteError> {
        self.done(Ask::Replace(new)).await
    }

    async fn rewrap_secret(&self, from: &str, new: SealedSecret) -> Result<bool, WriteError> {
        let from = from.to_owned();
        self.done(Ask::Rewrap { from, new }).await
    }

    /// Removes nothing: that is the server's own.
    async fn remove_secrets(&self, _id: &str) -> Result<(), WriteError> {
        let words = "the egress process removes no secrets";
        Err(WriteError::Unavailable(Away::other(words)))
    }

    async fn secrets(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SealedSecret>, ReadError> {
        let after = after.map(str::to_owned);
        let Told::Secrets(found) = self.read(Ask::Secrets { after, limit }).await? else {
            return other();
        };
        Ok(found)
    }

    async fn claim_refresh(
        &self,
        owner: &str,
        revision: u64,
        now: Micros,
        until: Micros,
    ) -> Result<bool, WriteError> {
        let owner = owner.to_owned();
        self.done(Ask::Claim {
            owner,
            revision,
            now,
            until,
        })
        .await
    }

    async fn end_refresh(
        &self,
        owner: &str,
        revision: u64,
        until: Micros,
    ) -> Result<(), WriteError> {
        let owner = owner.to_owned();
        let ended = self.done(Ask::EndRefresh {
            owner,
            revision,
            until,
        });
        ended.await.map(drop)
    }
}

#[async_trait]
impl Registry for Linked {
    async fn credentials(&self, vault: VaultId) -> Result<Vec<Credential>, ReadError> {
        let Told::Credentials(found) = self.read(Ask::Credentials(vault)).await? else {
            return other();
        };
        Ok(found)
    }
}
