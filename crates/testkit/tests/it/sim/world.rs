//! Processes that can be killed: API, kernel, loop and gateway over a store that outlives them.
//!
//! Time is tokio's paused clock, chance comes from one seed, with a branch for each part, and the
//! store answers at once, so a run is repeatable. A killed life does nothing more through any seam
//! and hears of nothing that it had under way; its hands die with it if a test says so, and their
//! journals stay.

mod hands;
mod model;
mod network;
pub(crate) mod setup;
pub(crate) mod stranger;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::Router;
use outlast_api::Api;
use outlast_egress::Gateway;
use outlast_hands::{Limits, fake::Fakes};
use outlast_harness::{Options as Loop, Retries, Worker};
use outlast_kernel::{Claims, Kernel, Network, Parts, Schedule};
use outlast_model::{Facts, Scripted};
use outlast_protocol::{
    event::{self, ClientEvent},
    id::{ApiKeyId, EventId, SessionId},
    key::Scope,
    seam::Clock as _,
};
use outlast_session::{Record, Rules, Status, body::Config};
use outlast_store::{ApiKey, Keys as _, Slice};
use outlast_testkit::{
    blobs::{self, Memory as Blobs},
    faults::Faults,
    memory::Memory,
    mortal::{Mortal, Wrong},
    random::Seeded,
    time::RuntimeClock,
    vault,
};
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    hands::Reached,
    model::ReachedModel,
    network::ReachedNetwork,
    setup::{BEGIN, OneModel, answer, config, options},
    stranger::Stranger,
};

/// How long a test waits, by a clock that costs nothing.
const PATIENCE: Duration = Duration::from_secs(600);

/// The secret of the key that every client has.
pub(crate) const KEY: &str = "sk-outlast-test";

/// How often each call ran.
pub(crate) type Runs = Arc<Mutex<BTreeMap<EventId, u32>>>;

/// What outlives processes.
pub(crate) struct World {
    pub(crate) memory: Memory,
    pub(crate) clock: Arc<RuntimeClock>,
    pub(crate) hands: Fakes,
    /// How often each call ran.
    pub(crate) runs: Runs,
    pub(crate) blobs: Arc<Blobs>,
    /// Never, unless a test says otherwise.
    pub(crate) schedule: Schedule,
    pub(crate) limits: Limits,
    /// What the store gets wrong, to see that it is found.
    pub(crate) wrong: Option<Arc<dyn Wrong>>,
    /// Whether hands that are gone deny the calls that they had.
    pub(crate) forgetful: bool,
    /// The harness that sessions run with, if it is not ours.
    pub(crate) stranger: Option<Stranger>,
    /// What serves the ways out of hands, if they have any.
    pub(crate) network: Option<Arc<dyn Network>>,
    model: Arc<Scripted>,
    root: Seeded,
    lives: AtomicU64,
    key: ApiKeyId,
    config: Config,
}

/// One process.
pub(crate) struct Life {
    pub(crate) kernel: Kernel,
    pub(crate) router: Router,
    pub(crate) faults: Arc<Faults>,
    pub(crate) shutdown: CancellationToken,
    key: ApiKeyId,
}

impl World {
    /// Makes a world in which a seed decides all that chance decides.
    pub(crate) async fn new(seed: u64) -> Self {
        // Processes are killed again and again, and no session is to blame.
        let rules = Rules {
            attempts: 1_000,
            ..Rules::default()
        };
        Self::under(seed, rules).await
    }

    /// Makes such a world with bounds of its own.
    pub(crate) async fn under(seed: u64, rules: Rules) -> Self {
        let root = Seeded::new(seed);
        let clock = Arc::new(RuntimeClock::new(BEGIN));
        let memory = Memory::with_rules(clock.clone(), Arc::new(root.branch("store")), rules);
        let entropy = root.branch("test");
        let key = ApiKeyId::mint(clock.now(), &entropy);
        let admitted = ApiKey {
            id: key,
            hash: blake3::hash(KEY.as_bytes()).into(),
            name: "test".to_owned(),
            scope: Scope::Admin,
            created_at: clock.now(),
            expires_at: None,
            revoked_at: None,
        };
        memory.insert_key(admitted, None).await.unwrap();
        let config = config(&memory, &entropy).await;
        let runs = Runs::default();
        let ran = runs.clone();
        Self {
            memory,
            clock,
            hands: Fakes::new(move |asked| {
                *ran.lock().unwrap().entry(asked.call).or_default() += 1;
                answer(asked)
            }),
            runs,
            blobs: Arc::default(),
            schedule: Schedule::NEVER,
            limits: Limits::default(),
            wrong: None,
            forgetful: false,
            stranger: None,
            network: None,
            model: Arc::new(Scripted::new()),
            root,
            lives: AtomicU64::new(0),
            key,
            config,
        }
    }

    /// Returns a source of chance for a part of the test.
    pub(crate) fn branch(&self, name: &str) -> Seeded {
        self.root.branch(name)
    }

    /// Returns how many processes there were.
    pub(crate) fn lives(&self) -> usize {
        usize::try_from(self.lives.load(Ordering::SeqCst)).unwrap()
    }

    /// Starts a process to which nothing happens.
    pub(crate) async fn start(&self) -> Life {
        self.begin(Arc::default()).await.unwrap()
    }

    /// Starts a process; `None` if it dies or fails of it.
    pub(crate) async fn begin(&self, faults: Arc<Faults>) -> Option<Life> {
        let (kernel, claims) = self.kernel(&faults).await?;
        match self.stranger {
            Some(stranger) => spawn(stranger.run(claims)),
            None => spawn(self.worker(&kernel, &faults).run(claims)),
        }
        let shutdown = CancellationToken::new();
        let memory = Arc::new(self.memory.clone());
        let entropy = Arc::new(self.branch("vault"));
        let clock = self.clock.clone();
        let vault = vault::under(vault::KEY, memory, clock, entropy).await;
        vault.unlock().await;
        let router = outlast_api::router(Api {
            kernel: kernel.clone(),
            vault: Arc::new(vault),
            models: Arc::new(OneModel),
            shutdown: shutdown.clone(),
            leaving: CancellationToken::new(),
            tasks: TaskTracker::new(),
            ping: outlast_api::PING,
            bounds: outlast_api::Bounds::default(),
        });
        Some(Life {
            kernel,
            router,
            faults,
            shutdown,
            key: self.key,
        })
    }

    /// Starts a kernel without a brain; `None` if it dies or fails of it.
    pub(crate) async fn kernel(&self, faults: &Arc<Faults>) -> Option<(Kernel, Claims)> {
        let number = self.lives.fetch_add(1, Ordering::SeqCst);
        let store = Mortal::under(self.memory.clone(), faults.clone());
        let parts = Parts {
            store: Arc::new(match &self.wrong {
                Some(wrong) => store.with(wrong.clone()),
                None => store,
            }),
            provisioner: Arc::new(Reached {
                inner: Arc::new(self.hands.clone()),
                faults: faults.clone(),
                forgetful: self.forgetful,
            }),
            blobs: Arc::new(blobs::Mortal::under(self.blobs.clone(), faults.clone())),
            network: self.network.clone().map(|inner| {
                let faults = faults.clone();
                Arc::new(ReachedNetwork { inner, faults }) as Arc<dyn Network>
            }),
            sweep: None,
            clock: self.clock.clone(),
            entropy: Arc::new(self.root.branch(&format!("life {number}"))),
            options: options(self.limits, self.schedule),
        };
        tokio::select! {
            biased;
            () = faults.died() => None,
            started = Kernel::start(parts) => started.ok(),
        }
    }

    /// Makes our own loop, behind the gateway.
    fn worker(&self, kernel: &Kernel, faults: &Arc<Faults>) -> Worker {
        static FACTS: LazyLock<Arc<Facts>> = LazyLock::new(|| Arc::new(Facts::load(None).unwrap()));
        let facts = FACTS.clone();
        let upstream = Arc::new(ReachedModel {
            inner: self.model.clone(),
            faults: faults.clone(),
        });
        Worker::new(Loop {
            model: Arc::new(Gateway::new(kernel.clone(), upstream, facts.clone())),
            facts,
            retries: Retries::default(),
        })
    }

    /// Ends the hands of a process that died.
    pub(crate) fn bury(&self) {
        for recipe in self.hands.provisioned() {
            self.hands.kill(recipe.incarnation);
        }
    }

    /// Reads a whole log.
    pub(crate) async fn log(&self, session: SessionId) -> Vec<Record> {
        use outlast_store::Log as _;
        let slice = Slice::after(0, 1_000_000);
        self.memory.read(session, slice).await.unwrap()
    }

    /// Makes a session.
    pub(crate) async fn session(&self, life: &Life) -> SessionId {
        self.made(&life.kernel).await
    }

    /// Makes a session through a kernel.
    pub(crate) async fn made(&self, kernel: &Kernel) -> SessionId {
        let draft = kernel.draft(self.config.clone());
        let made = kernel.create(self.key, draft, &[], None).await;
        made.unwrap().id
    }

    /// Sends a message through a kernel.
    pub(crate) async fn say(&self, kernel: &Kernel, session: SessionId, text: &str) {
        let content = json!([{ "type": "text", "text": text }]);
        let events = parsed(&json!([{ "type": "user.message", "content": content }]));
        kernel.send(self.key, session, &events, None).await.unwrap();
    }
}

impl Life {
    /// Sends events.
    pub(crate) async fn send(&self, session: SessionId, events: &Value) {
        let events = parsed(events);
        let sent = self.kernel.send(self.key, session, &events, None);
        sent.await.unwrap();
    }

    /// Ends it at once, and what it would do by itself.
    pub(crate) async fn kill(&self) {
        self.faults.kill();
        self.shutdown.cancel();
        self.kernel.close(Duration::ZERO).await;
    }

    /// Waits until the session waits for a client, or this life is over: false then.
    pub(crate) async fn rests(&self, session: SessionId) -> bool {
        let quiet = async {
            loop {
                let state = self.kernel.state(session).await;
                // A store that fails now and then fails this test's own look too.
                if let Ok(state) = state
                    && state.shown() == Status::Idle
                    && state.threads[0].lease.is_none()
                {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let over = async {
            self.faults.died().await;
            false
        };
        let rested = async {
            tokio::select! {
                biased;
                over = over => over,
                quiet = quiet => quiet,
            }
        };
        tokio::time::timeout(PATIENCE, rested)
            .await
            .expect("the session never came to rest")
    }
}

/// Reads events as the API does.
pub(crate) fn parsed(events: &Value) -> Vec<ClientEvent> {
    event::parse_send(&json!({ "events": events })).unwrap()
}

/// Starts a task that ends with the test's runtime.
#[expect(
    clippy::disallowed_methods,
    reason = "a killed process leaves its tasks behind"
)]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}
