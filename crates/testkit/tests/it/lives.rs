//! Processes that can be killed: kernel, loop and gateway over a store that outlives them.
//!
//! Time is tokio's paused clock, randomness is seeded and the store answers at once, so a run is
//! repeatable. A killed life never appends again and never hears of what it appended last; its
//! hands die with it, and their journals stay.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use outlast_egress::{Budget, Gateway, Unbounded};
use outlast_hands::{
    Limits,
    fake::{Asked, Fakes, Reply},
};
use outlast_harness::{Options as Loop, Retries, Worker};
use outlast_kernel::{
    Beats, Claims, Draft, HandLife, Kernel, Network, Options, Parts, Schedule, Sweep,
};
use outlast_model::{Facts, Scripted};
use outlast_protocol::{
    CallResult,
    id::{ApiKeyId, SessionId},
    seam::Clock as _,
};
use outlast_session::{
    Kind, Proposal, Record, Rules, Status,
    body::{Config, Repository},
};
use outlast_store::{Slice, Store};
use outlast_testkit::{
    blobs::Memory as Blobs,
    faulty::{Fault, Faulty},
    memory::Memory,
    random::Seeded,
    time::RuntimeClock,
};
use serde_json::Value;

use crate::sim::world::{
    parsed,
    setup::{BEGIN, config, options},
    spawn,
};

/// How long a test waits, by a clock that costs nothing.
const PATIENCE: Duration = Duration::from_secs(600);

/// What outlives processes.
pub(crate) struct World {
    pub(crate) memory: Memory,
    pub(crate) clock: Arc<RuntimeClock>,
    pub(crate) entropy: Arc<Seeded>,
    pub(crate) hands: Fakes,
    pub(crate) blobs: Arc<Blobs>,
    /// Never, unless a test says otherwise: timers make no log the same twice.
    pub(crate) schedule: Schedule,
    pub(crate) limits: Limits,
    pub(crate) hand_life: HandLife,
    pub(crate) hand_idle: Duration,
    pub(crate) hand_age: Option<Duration>,
    pub(crate) model: Arc<Shared>,
    pub(crate) network: Option<Arc<dyn Network>>,
    pub(crate) budget: Arc<dyn Budget>,
    pub(crate) sweep: Option<Arc<dyn Sweep>>,
    key: ApiKeyId,
    pub(crate) config: Config,
}

/// One process.
pub(crate) struct Life {
    pub(crate) kernel: Kernel,
    /// What it sees of the store.
    pub(crate) store: Arc<Faulty<Memory>>,
    pub(crate) key: ApiKeyId,
    died: Arc<AtomicBool>,
    appends: Arc<AtomicU64>,
}

/// A process on a node of its own.
pub(crate) struct Node {
    pub(crate) life: Life,
    /// The way to the store that all share.
    pub(crate) store: Arc<Faulty<Memory>>,
    pub(crate) hands: Fakes,
}

/// Where a life ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    /// At its n-th append, from 1; those of clients do not count.
    pub(crate) at: u64,
    /// Whether that append still reaches the log.
    pub(crate) committed: bool,
}

/// What a conversation holds that is too much for whoever has it answered.
pub(crate) const POISON: &str = "poison";

/// A model that many lives share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    scripted: Scripted,
    /// Whether poison does no harm any more.
    mended: AtomicBool,
    /// Held by each answer that is being given, and by us.
    running: Arc<()>,
    asked: AtomicU64,
}

impl Shared {
    /// Lets poison do no harm from now on.
    pub(crate) fn mend(&self) {
        self.mended.store(true, Ordering::SeqCst);
    }

    /// Returns how many requests came, and how many answers are being given.
    pub(crate) fn seen(&self) -> (u64, usize) {
        let running = Arc::strong_count(&self.running) - 1;
        (self.asked.load(Ordering::SeqCst), running)
    }
}

#[async_trait::async_trait]
impl outlast_model::Model for Shared {
    async fn stream(
        &self,
        call: outlast_model::Call,
    ) -> Result<outlast_model::Events, outlast_model::Error> {
        use futures::StreamExt as _;
        self.asked.fetch_add(1, Ordering::SeqCst);
        let harmless = self.mended.load(Ordering::SeqCst) || !call.body.get().contains(POISON);
        assert!(harmless, "the model's client panics, as the test wants it");
        let running = self.running.clone();
        let events = self.scripted.stream(call).await?;
        Ok(Box::pin(events.inspect(move |_| {
            let _held = &running;
        })))
    }
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
        let clock = Arc::new(RuntimeClock::new(BEGIN));
        let entropy = Arc::new(Seeded::new(seed));
        let memory = Memory::with_rules(clock.clone(), entropy.clone(), rules);
        let key = ApiKeyId::mint(clock.now(), &*entropy);
        let config = config(&memory, &*entropy).await;
        let hands = Fakes::new(answer);
        let model = Arc::default();
        Self {
            memory,
            clock,
            entropy,
            hands,
            blobs: Arc::default(),
            schedule: Schedule::NEVER,
            limits: Limits::default(),
            hand_life: HandLife::WithServer,
            hand_idle: Duration::from_secs(86_400),
            hand_age: None,
            model,
            network: None,
            budget: Arc::new(Unbounded),
            sweep: None,
            key,
            config,
        }
    }

    /// Starts a process, which dies where it is told to.
    pub(crate) async fn start(&self, death: Option<Death>) -> Life {
        self.start_on(death, 0).await
    }

    /// Starts a process whose store fails so many of a hundred appends, those of clients aside.
    pub(crate) async fn start_flaky(&self, percent: u64) -> Life {
        self.start_on(None, percent).await
    }

    async fn start_on(&self, death: Option<Death>, percent: u64) -> Life {
        let died = Arc::new(AtomicBool::new(false));
        let appends = Arc::new(AtomicU64::new(0));
        let store = Arc::new(Faulty::new(self.memory.clone()));
        store.hook(mortal(
            death,
            died.clone(),
            appends.clone(),
            self.chance(percent),
        ));
        self.live(store, died, appends).await
    }

    async fn live(
        &self,
        store: Arc<Faulty<Memory>>,
        died: Arc<AtomicBool>,
        appends: Arc<AtomicU64>,
    ) -> Life {
        let kernel = self.run(store.clone(), &self.hands, None).await;
        Life {
            kernel,
            store,
            key: self.key,
            died,
            appends,
        }
    }

    /// Starts a process that dies of the first append for which the curse has a fault.
    pub(crate) async fn start_cursed(
        &self,
        mut curse: impl FnMut(SessionId, &Proposal) -> Option<Fault> + Send + 'static,
    ) -> Life {
        let died: Arc<AtomicBool> = Arc::default();
        let store = Arc::new(Faulty::new(self.memory.clone()));
        let own = died.clone();
        store.hook(move |_, session, append| {
            if own.load(Ordering::SeqCst) {
                return Fault::Dead;
            }
            let fault = curse(session, &append.proposal);
            own.store(fault.is_some(), Ordering::SeqCst);
            fault.unwrap_or_default()
        });
        self.live(store, died, Arc::default()).await
    }

    /// Starts a process whose claims reach the store so much later.
    pub(crate) async fn start_late(&self, late: Duration) -> Life {
        let store = Arc::new(Faulty::new(self.memory.clone()));
        store.hook(move |_, _, append| {
            let claims = matches!(append.proposal, Proposal::Claim { .. });
            if claims {
                Fault::Late(late)
            } else {
                Fault::None
            }
        });
        self.live(store, Arc::default(), Arc::default()).await
    }

    /// Starts a process on a node of its own, beside others on theirs.
    pub(crate) async fn start_beside(&self, name: &str, beats: Beats) -> Node {
        let store = Arc::new(Faulty::new(self.memory.on(name)));
        let hands = Fakes::new(answer);
        let kernel = self.run(store.clone(), &hands, Some(beats)).await;
        let life = Life {
            kernel,
            store: store.clone(),
            key: self.key,
            died: Arc::default(),
            appends: Arc::default(),
        };
        Node { life, store, hands }
    }

    /// Starts a process without a loop: whoever takes its claims is the brain.
    pub(crate) async fn bare(&self) -> (Life, Claims) {
        let store = Arc::new(Faulty::new(self.memory.clone()));
        let (kernel, claims) = self.kernel(store.clone(), &self.hands, None).await;
        let life = Life {
            kernel,
            store,
            key: self.key,
            died: Arc::default(),
            appends: Arc::default(),
        };
        (life, claims)
    }

    /// Runs kernel, loop and gateway over a store.
    async fn run(&self, store: Arc<dyn Store>, hands: &Fakes, beats: Option<Beats>) -> Kernel {
        let (kernel, claims) = self.kernel(store, hands, beats).await;
        let facts = Arc::new(Facts::load(None).unwrap());
        let gateway = Gateway::new(kernel.clone(), self.model.clone(), facts.clone());
        let model = Arc::new(gateway.under(self.budget.clone()));
        let worker = Worker::new(Loop {
            model,
            facts,
            retries: Retries::default(),
        });
        spawn(worker.run(claims));
        kernel
    }

    async fn kernel(
        &self,
        store: Arc<dyn Store>,
        hands: &Fakes,
        beats: Option<Beats>,
    ) -> (Kernel, Claims) {
        let parts = Parts {
            store,
            provisioner: Arc::new(hands.clone()),
            blobs: self.blobs.clone(),
            network: self.network.clone(),
            sweep: self.sweep.clone(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            options: Options {
                hand_idle: self.hand_idle,
                hand_age: self.hand_age,
                hand_life: self.hand_life,
                beats,
                ..options(self.limits, self.schedule)
            },
        };
        Kernel::start(parts).await.unwrap()
    }

    /// Draws a fault in so many of a hundred cases.
    fn chance(&self, percent: u64) -> impl FnMut() -> Fault + Send + use<> {
        let entropy = self.entropy.clone();
        move || match entropy.below(200) {
            draw if draw < percent => Fault::Before,
            draw if draw < 2 * percent => Fault::After,
            _ => Fault::None,
        }
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
        self.memory
            .read(session, Slice::after(0, 100_000))
            .await
            .unwrap()
    }

    /// Makes a session.
    pub(crate) async fn session(&self, life: &Life) -> SessionId {
        self.session_of(life, life.kernel.draft(self.config.clone()))
            .await
    }

    /// Makes a session of a draft.
    pub(crate) async fn session_of(&self, life: &Life, draft: Draft) -> SessionId {
        let made = life.kernel.create(self.key, draft, &[], None);
        made.await.unwrap().id
    }

    /// Makes a session with one repository.
    pub(crate) async fn session_with(&self, life: &Life, repository: Repository) -> SessionId {
        let draft = life.kernel.draft(self.config_with(repository));
        self.session_of(life, draft).await
    }

    /// Returns what such a session runs with.
    pub(crate) fn config_with(&self, repository: Repository) -> Config {
        Config {
            repositories: vec![repository],
            ..self.config.clone()
        }
    }
}

impl Drop for Life {
    /// It ends here at the latest: nothing of it may reach the next one's world.
    fn drop(&mut self) {
        self.died.store(true, Ordering::SeqCst);
        self.store.away(true);
        // Its tasks are told to end, and nobody waits for them.
        let _ended = self.kernel.close(Duration::ZERO).now_or_never();
    }
}

impl Life {
    /// Sends events, which always reach the log.
    pub(crate) async fn send(&self, session: SessionId, events: &Value) {
        self.kernel
            .send(self.key, session, &parsed(events), None)
            .await
            .unwrap();
    }

    /// Archives a session.
    pub(crate) async fn archive(&self, session: SessionId) {
        self.kernel.archive(self.key, session).await.unwrap();
    }

    /// Deletes a session.
    pub(crate) async fn delete(&self, session: SessionId) {
        self.kernel.delete(self.key, session).await.unwrap();
    }

    /// Waits until the session waits for a client, or this life is over: false then.
    pub(crate) async fn rests(&self, session: SessionId) -> bool {
        let quiet = async {
            while !self.is_dead() {
                let state = self.kernel.state(session).await.unwrap();
                if state.shown() == Status::Idle && state.threads[0].lease.is_none() {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            false
        };
        tokio::time::timeout(PATIENCE, quiet)
            .await
            .expect("the session never came to rest")
    }

    /// Ends it as SIGKILL would.
    pub(crate) fn kill(&self) {
        self.died.store(true, Ordering::SeqCst);
    }

    /// Ends it as an operator would: its turns are handed back.
    pub(crate) async fn close(&self) {
        assert!(self.kernel.close(PATIENCE).await);
        while self.kernel.turns() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Tells whether it died.
    pub(crate) fn is_dead(&self) -> bool {
        self.died.load(Ordering::SeqCst)
    }

    /// Returns how many appends it proposed, those of clients aside.
    pub(crate) fn appends(&self) -> u64 {
        self.appends.load(Ordering::SeqCst)
    }
}

/// Decides what the store does with the appends of a life.
fn mortal(
    death: Option<Death>,
    died: Arc<AtomicBool>,
    appends: Arc<AtomicU64>,
    mut chance: impl FnMut() -> Fault + Send + 'static,
) -> impl FnMut(u64, SessionId, &outlast_store::Append) -> Fault + Send {
    move |_, _, append| {
        if died.load(Ordering::SeqCst) {
            return Fault::Dead;
        }
        if matches!(append.proposal, Proposal::Create(_) | Proposal::Send(_)) {
            return Fault::None;
        }
        let number = appends.fetch_add(1, Ordering::SeqCst) + 1;
        match death.filter(|death| death.at == number) {
            None => chance(),
            Some(death) => {
                died.store(true, Ordering::SeqCst);
                if death.committed {
                    Fault::Unheard
                } else {
                    Fault::Dead
                }
            }
        }
    }
}

/// What the hands answer: always the same to the same call.
fn answer(asked: &Asked) -> Reply {
    let input: Value = serde_json::from_str(&asked.input).unwrap();
    let result = CallResult::text(format!("{} {input}", asked.name));
    match input["wait_ms"].as_u64() {
        Some(ms) => Reply::After(Duration::from_millis(ms), result),
        None => Reply::Now(result),
    }
}

/// Returns the public events with ids told by order of appearance, times and spans left out.
pub(crate) fn told(records: &[Record]) -> Vec<String> {
    let mut names = std::collections::HashMap::new();
    let mut lines = Vec::new();
    for record in records.iter().filter(|record| record.kind.is_public()) {
        if matches!(
            record.kind,
            Kind::RequestStart | Kind::RequestEnd | Kind::SessionUsage
        ) {
            continue;
        }
        let mut text = format!("{} {}", record.kind, record.body.text());
        let next = names.len();
        names
            .entry(record.event.unwrap().to_string())
            .or_insert_with(|| format!("event-{next}"));
        for (id, name) in &names {
            text = text.replace(id.as_str(), name);
        }
        lines.push(text);
    }
    lines
}
