//! The egress in another process, as the server has it.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use outlast_kernel::Bound;
use outlast_protocol::{
    Micros,
    credential::Validation,
    id::{CredentialId, IncarnationId, VaultId},
};
use outlast_store::SealedSecret;
use outlast_vault::{Custodian, Declined, Holding, Order, Purpose, Records, Turned};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::{
    Peer,
    ask::{Asker, LONG, PATIENCE, json},
    link::{Answers, Links, Noted},
    wire::{Hello, Life, Opened, Tried, VERSION},
};

/// How long between two looks at a process that was lost, and at one that is there.
const LOOKS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// How long a look may take.
const LOOK: Duration = Duration::from_secs(5);

/// Whether the process answers at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reached {
    Yes,
    No,
}

/// What an egress process says of itself.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct About {
    /// The version of what it speaks.
    pub version: u32,
    /// Its process.
    pub pid: u32,
    /// Which models answer, in words.
    pub models: String,
}

/// What the egress process is to know of a server, and what it asks of it.
pub struct Server {
    /// A name that no other server has, nor had.
    pub name: String,
    /// Where it listens.
    pub listens: SocketAddr,
    /// Whether no other server uses its store.
    pub alone: bool,
    /// Its store, as far as sealed secrets go.
    pub records: Records,
    /// Takes entries for its audit log.
    pub noted: Noted,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The egress in another process. Cheap to clone.
#[derive(Clone)]
pub struct Remote(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) asker: Asker,
    hello: Hello,
    answers: Answers,
    /// Why it cannot be used, as was last found, and whether it is not reached at all.
    trouble: watch::Sender<Option<(String, Reached)>>,
    keys: Mutex<HashMap<Purpose, Zeroizing<[u8; 32]>>>,
    /// What is served there, for the next process.
    pub(super) served: Mutex<BTreeMap<IncarnationId, (Bound, TcpListener)>>,
    /// Breaks all links, by which nothing more leaves for any hand.
    pub(super) cut: tokio::sync::Notify,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Remote").field(&self.0.asker.peer).finish()
    }
}

impl Remote {
    /// Makes one that is not linked yet: [`attend`](Self::attend) sees to that.
    pub fn new(peer: Peer, server: Server) -> Self {
        let Server {
            name,
            listens,
            alone,
            records,
            noted,
        } = server;
        let hello = Hello {
            version: VERSION,
            pid: std::process::id(),
            alone,
            listens,
        };
        let asker = Asker::new(peer, name.into());
        let words = asker.words(&io::Error::other("it was not tried yet"));
        Self(Arc::new(Inner {
            asker,
            hello,
            answers: Answers { records, noted },
            trouble: watch::Sender::new(Some((words, Reached::No))),
            keys: Mutex::default(),
            served: Mutex::default(),
            cut: tokio::sync::Notify::new(),
        }))
    }

    /// Waits until it can be used, for so long at most.
    pub async fn wait(&self, patience: Duration) {
        let mut trouble = self.0.trouble.subscribe();
        drop(timeout(patience, trouble.wait_for(Option::is_none)).await);
    }

    /// Keeps links to whichever process is there, until it is told to stop.
    pub async fn attend(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let lost = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                lost = self.hold() => lost,
            };
            self.note(Some((self.0.asker.words(&lost), Reached::No)));
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = sleep(LOOKS.0) => {}
            }
        }
    }

    /// Links and holds the links until one breaks; returns what happened.
    async fn hold(&self) -> io::Error {
        match self.hold_links().await {
            // Most often it ended.
            Ok(()) => io::Error::new(io::ErrorKind::ConnectionAborted, "it let go of this server"),
            Err(error) => error,
        }
    }

    async fn hold_links(&self) -> io::Result<()> {
        let inner = &*self.0;
        let opening = Links::open(&inner.asker, &inner.hello, &inner.answers);
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let mut links = timeout(LOOK, opening).await.map_err(late)??;
        self.look().await?;
        self.attach_all().await;
        tracing::info!("linked to the egress process");
        loop {
            tokio::select! {
                biased;
                () = links.broken() => return Ok(()),
                () = inner.cut.notified() => return Ok(()),
                () = sleep(LOOKS.1) => self.look().await?,
            }
        }
    }

    /// Asks how it is, and for the keys that are not had yet.
    async fn look(&self) -> io::Result<()> {
        let asked = self
            .0
            .asker
            .ask_for::<Opened>(LOOK, "/open", json(&()))
            .await;
        let Opened { trouble, keys } = asked.map_err(io::Error::other)?;
        for (purpose, key) in keys {
            self.keys().insert(purpose, Zeroizing::new(key));
        }
        self.note(trouble.map(|words| (words, Reached::Yes)));
        Ok(())
    }

    fn note(&self, trouble: Option<(String, Reached)>) {
        self.0.trouble.send_if_modified(|known| {
            let is_new = *known != trouble;
            if let Some((words, _)) = trouble.as_ref().filter(|_| is_new) {
                tracing::error!("no secret can be used: {words}");
            }
            *known = trouble;
            is_new
        });
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Purpose, Zeroizing<[u8; 32]>>> {
        self.0.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks what it says of itself.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub async fn about(&self) -> Result<About, Declined> {
        self.0.asker.ask("/about", &()).await
    }
}

#[async_trait]
impl Custodian for Remote {
    async fn secure(&self, order: Order) -> Result<SealedSecret, Declined> {
        let bytes = order.exposed();
        drop(order);
        self.0.asker.ask_for(PATIENCE, "/secure", bytes).await
    }

    async fn end_of(&self, sealed: &SealedSecret) -> Result<Option<Micros>, Declined> {
        self.0.asker.ask("/end", sealed).await
    }

    async fn validate(
        &self,
        vault: VaultId,
        credential: CredentialId,
    ) -> Result<Validation, Declined> {
        let tried = Tried { vault, credential };
        let asked = self.0.asker.ask_for(LONG, "/validate", json(&tried));
        // The object of the API has no field for it.
        let (tried, unreached): (Validation, _) = asked.await?;
        Ok(Validation { unreached, ..tried })
    }

    async fn holding(&self) -> Result<Holding, Declined> {
        self.0.asker.ask_for(LONG, "/holding", json(&())).await
    }

    async fn turn(&self) -> Result<Turned, Declined> {
        self.0.asker.ask_for(LONG, "/turn", json(&())).await
    }

    /// A process that is away has nothing that could count.
    async fn outdate(&self) {
        if let Err(error) = self.0.asker.ask::<()>("/outdate", &()).await {
            tracing::warn!("what changed of secrets may be seen some seconds later: {error}");
        }
    }

    fn trouble(&self) -> Option<String> {
        let trouble = self.0.trouble.borrow();
        trouble.as_ref().map(|(words, _)| words.clone())
    }

    fn away(&self) -> Option<String> {
        let trouble = self.0.trouble.borrow();
        let (words, reached) = trouble.as_ref()?;
        (*reached == Reached::No).then(|| words.clone())
    }

    fn derive(&self, purpose: Purpose) -> Option<Zeroizing<[u8; 32]>> {
        self.keys().get(&purpose).cloned()
    }
}

impl Remote {
    /// Says that a life ended.
    pub(super) async fn end(&self, incarnation: IncarnationId) -> Result<(), Declined> {
        self.0.asker.ask("/revoke", &Life { incarnation }).await
    }
}
