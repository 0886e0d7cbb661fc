//! The kernel itself: its parts, its tasks, and the one way it appends.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use outlast_blobs::Blobs;
use outlast_hands::{Limits, Provisioner, Requirement, images::Images, packages::Mirrors};
use outlast_protocol::{
    ErrorCode, Metadata, Micros, Problem,
    deadlines::Deadlines,
    id::{EventId, ProcessId, SessionId},
    seam::{Clock, Entropy},
};
use outlast_session::{Claim, Kind, Proposal, Record};
use outlast_store::{Append, AppendError, Away, Outcome, Receipt, Store, WriteError};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    auth::Keys,
    checkpoint::{self, Checkpoints, Schedule},
    crowd::Crowd,
    deadlines::{self, Timer},
    dispatch,
    failing::Failing,
    files::{GivenUp, Publisher},
    hand::{self, Hands},
    insist::Lines,
    lease::{Claims, Lease, Leases},
    life::{self, Beats, Life},
    monitor::{self, Monitor},
    network::Network,
    past::Past,
    preview::Bus,
    quarantine::Quarantine,
    signal::Signals,
    sweep::Sweep,
    token::TokenKey,
};

/// What a kernel is made of.
#[derive(Debug)]
pub struct Parts {
    /// Logs and resources.
    pub store: Arc<dyn Store>,
    /// Bytes of files, and checkpoints; where the store keeps large bodies, so that both go with a
    /// session.
    pub blobs: Arc<dyn Blobs>,
    /// Makes hands.
    pub provisioner: Arc<dyn Provisioner>,
    /// Serves their ways out; without it they have none.
    pub network: Option<Arc<dyn Network>>,
    /// Knows the secrets of sessions; without it results are kept as they come.
    pub sweep: Option<Arc<dyn Sweep>>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Draws ids.
    pub entropy: Arc<dyn Entropy>,
    /// The operator's choices.
    pub options: Options,
}

/// The operator's choices.
#[derive(Clone, Debug)]
pub struct Options {
    /// Turns that run at once in this process.
    pub brains: usize,
    /// Limits of each hand.
    pub limits: Limits,
    /// What a node must be able to isolate: a hand that cannot be held so is refused.
    pub require: Vec<Requirement>,
    /// The images that an environment may choose from.
    pub images: Images,
    /// Where the packages of environments come from.
    pub mirrors: Mirrors,
    /// The longest that the packages of one environment may take to be installed.
    pub install: Duration,
    /// How long a hand may lie unused before it is let go; its workspace stays.
    pub hand_idle: Duration,
    /// When workspaces are brought into blobs.
    pub checkpoints: Schedule,
    /// Hands that may live at once on this node; unused ones beyond that are let go early.
    pub hands: usize,
    /// How old a hand may become before it is let go between two calls; its workspace stays.
    pub hand_age: Option<Duration>,
    /// What becomes of hands when this process ends.
    pub hand_life: HandLife,
    /// What holds for new sessions.
    pub deadlines: Deadlines,
    /// List price of one hour of running, in nano-dollars.
    pub hour_price: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all that agents leave in one session.
    pub output_bytes: u64,
    /// How this process says that it lives; absent where no other can use the store, so that nobody
    /// could declare it dead.
    pub beats: Option<Beats>,
}

/// What becomes of hands when their server ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HandLife {
    /// They end with it, so a closing kernel waits for their calls.
    WithServer,
    /// They go on, and the next server asks for the calls that ran.
    OfTheirOwn,
}

/// The door. Cheap to clone.
#[derive(Clone)]
pub struct Kernel(pub(crate) Arc<Inner>);

/// What all doors share.
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) options: Options,
    pub(crate) life: Arc<Life>,
    pub(crate) hands: Hands,
    pub(crate) sweep: Option<Arc<dyn Sweep>>,
    pub(crate) publisher: Publisher,
    pub(crate) given_up: GivenUp,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) keys: Keys,
    pub(crate) token_key: TokenKey,
    pub(crate) previews: Bus,
    pub(crate) signals: Signals,
    pub(crate) leases: Leases,
    pub(crate) lines: Lines,
    pub(crate) monitor: Monitor,
    pub(crate) quarantine: Quarantine,
    /// How the clock was set while this process lives.
    past: Past,
    /// What was last known of the store.
    failing: Mutex<Failing>,
    /// Told when a thread may want a brain.
    pub(crate) wake: Notify,
    /// What runs out next, and who is told of something earlier.
    pub(crate) timer: Timer,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) crowd: Crowd,
    pub(crate) closing: CancellationToken,
    pub(crate) tasks: TaskTracker,
    claims: mpsc::Sender<Lease>,
}

impl Kernel {
    /// Opens the door: declares older processes of this node dead and begins to wake what has work.
    ///
    /// # Errors
    ///
    /// If the store cannot be written, or there is no thread to beat.
    pub async fn start(parts: Parts) -> Result<(Self, Claims), WriteError> {
        let Parts {
            store,
            blobs,
            provisioner,
            network,
            sweep,
            clock,
            entropy,
            options,
        } = parts;
        let process = ProcessId::mint(clock.now(), &*entropy);
        let before = clock.uptime();
        store.register(process, clock.now()).await?;
        let life = Arc::new(Life::new(clock.clone(), options.beats, process, before));
        life::start(&life, store.clone()).map_err(|fault| {
            WriteError::Unavailable(Away::other(format_args!("nothing can beat: {fault}")))
        })?;
        // Never full: a lease is only sent along with the permit that it holds.
        let brains = options.brains.max(1);
        let (claims, receiver) = mpsc::channel(brains);
        let slots = Arc::new(Semaphore::new(brains));
        let inner = Arc::new(Inner {
            hands: Hands::new(provisioner, network),
            sweep,
            publisher: Publisher::default(),
            given_up: GivenUp::default(),
            checkpoints: Checkpoints::new(),
            keys: Keys::default(),
            token_key: TokenKey::default(),
            previews: Bus::default(),
            signals: Signals::default(),
            leases: Leases::default(),
            lines: Lines::default(),
            monitor: Monitor::default(),
            quarantine: Quarantine::default(),
            past: Past::new(&*clock),
            failing: Mutex::default(),
            wake: Notify::new(),
            timer: Timer::default(),
            crowd: Crowd::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            store,
            blobs,
            clock,
            entropy,
            options,
            life,
            slots,
            claims,
        });
        inner.tasks.spawn(dispatch::wake(inner.clone()));
        inner.tasks.spawn(dispatch::tidy(inner.clone()));
        inner.tasks.spawn(deadlines::watch(inner.clone()));
        inner.tasks.spawn(monitor::watch(inner.clone()));
        inner.tasks.spawn(checkpoint::watch(inner.clone()));
        inner.tasks.spawn(life::watch_peers(inner.clone()));
        inner.tasks.spawn(life::rise(inner.clone()));
        Ok((Self(inner), Claims::new(receiver)))
    }

    /// Returns the store's plain resources.
    pub fn resources(&self) -> &dyn outlast_store::Resources {
        &*self.0.store
    }

    /// Returns the store's objects that belong to another, with their secrets.
    pub fn wards(&self) -> &dyn outlast_store::Wards {
        &*self.0.store
    }

    /// Returns the store's sealed secrets.
    pub fn secrets(&self) -> &dyn outlast_store::Secrets {
        &*self.0.store
    }

    /// Has the store's own files emptied of secrets that were removed; nobody waits for it.
    pub fn scrub_soon(&self) {
        let store = self.0.store.clone();
        self.0.tasks.spawn(async move {
            if let Err(fault) = store.scrub().await {
                tracing::warn!("removed secrets may still lie in the log of the store: {fault}");
            }
        });
    }

    /// Returns the present moment.
    pub fn now(&self) -> Micros {
        self.0.clock.now()
    }

    /// Returns what the time of day was so long ago, at most a day: at the latest, if the clock was set
    /// since.
    pub fn ago(&self, long: Duration) -> Micros {
        self.0.ago(long)
    }

    /// Returns where ids come from.
    pub fn entropy(&self) -> &dyn Entropy {
        &*self.0.entropy
    }

    /// Returns the operator's choices.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// Refuses an environment whose hands would stand on an image that there is none of.
    ///
    /// # Errors
    ///
    /// A bad request that names the known ones.
    pub fn check_image(&self, metadata: &Metadata) -> Result<(), Problem> {
        let Some(name) = metadata.get(hand::IMAGE) else {
            return Ok(());
        };
        let known = self.0.options.images.names().map_err(|error| {
            let words = format!("the table of images cannot be read: {error}");
            Problem::new(ErrorCode::Overloaded, words)
        })?;
        if known.contains(name) {
            return Ok(());
        }
        let known = if known.is_empty() {
            "this server has none; `outlast images import` brings one".to_owned()
        } else {
            format!("known: {}", known.join(", "))
        };
        let key = hand::IMAGE;
        let words = format!("metadata.{key}: there is no image `{name}`; {known}");
        Err(Problem::invalid(words))
    }

    /// Returns how many turns run now.
    pub fn turns(&self) -> usize {
        self.0
            .options
            .brains
            .max(1)
            .saturating_sub(self.0.slots.available_permits())
    }

    /// Stops taking leases, and asks brains to hand back theirs at their next event.
    pub fn hand_back(&self) {
        self.0.closing.cancel();
    }

    /// Does so, and waits until nothing is on its way any more, or until the deadline.
    ///
    /// Returns whether all was done in time. Hands are left to whoever makes them.
    pub async fn close(&self, deadline: Duration) -> bool {
        self.hand_back();
        self.0.tasks.close();
        tokio::time::timeout(deadline, self.0.tasks.wait())
            .await
            .is_ok()
    }

    /// Ends this process's part in the store: what it did not hand back is others' to take at once.
    ///
    /// Nothing of it begins from here on.
    pub async fn end(&self) {
        let inner = &self.0;
        inner.hands.outlets.close().await;
        let process = inner.life.process();
        inner.life.end().await;
        if inner.options.beats.is_some()
            && let Err(fault) = inner.store.declare_dead(process).await
        {
            tracing::warn!(%fault, "others have to find out that this process ended: {fault}");
        }
    }
}

impl Inner {
    /// Draws an event id.
    pub(crate) fn event_id(&self) -> EventId {
        EventId::mint(self.clock.now(), &*self.entropy)
    }

    /// Reserves a slot and the right to claim along with an input, if a slot is free and nobody
    /// waits for one: who comes now stands behind them.
    pub(crate) fn reserve_next(&self) -> Option<(OwnedSemaphorePermit, Claim)> {
        let reserved = (!self.crowd.waits()).then(|| self.reserve()).flatten();
        if reserved.is_none() {
            self.crowd.came();
        }
        reserved
    }

    /// Reserves a slot and the right to claim along with an append, if a slot is free.
    pub(crate) fn reserve(&self) -> Option<(OwnedSemaphorePermit, Claim)> {
        let process = self.life.process();
        if self.closing.is_cancelled() || self.life.check(process).is_err() {
            return None;
        }
        let permit = self.slots.clone().try_acquire_owned().ok()?;
        Some((
            permit,
            Claim {
                process,
                dead: None,
            },
        ))
    }

    /// Proposes now; what follows from the outcome happens even if nobody waits for it.
    pub(crate) fn append(
        self: &Arc<Self>,
        session: SessionId,
        proposal: Proposal,
        receipt: Option<Receipt>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> JoinHandle<Result<Outcome, AppendError>> {
        let pending = self.store.append(session, Append { proposal, receipt });
        let inner = self.clone();
        self.tasks.spawn(async move {
            let outcome = pending.await;
            inner.heard(session, &outcome, permit);
            outcome
        })
    }

    /// Does what follows from the answer to an append.
    pub(crate) fn heard(
        self: &Arc<Self>,
        session: SessionId,
        outcome: &Result<Outcome, AppendError>,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        match outcome {
            Ok(outcome) => {
                self.failing().ended();
                self.absorb(outcome, permit);
            }
            Err(AppendError::Unavailable(away)) => {
                self.failed(away);
                if permit.is_some() {
                    self.tasks.spawn(dispatch::recover(self.clone(), session));
                }
            }
            Err(AppendError::Dead(process)) => self.life.declared(*process),
            Err(_) => {}
        }
    }

    /// Returns what the time of day was so long ago, however the clock was set since.
    pub(crate) fn ago(&self, long: Duration) -> Micros {
        self.past.ago(&*self.clock, long)
    }

    /// Notes that the store, or the place for files, took nothing.
    pub(crate) fn failed(&self, away: &Away) {
        self.failing().failed(away.lack, self.clock.now());
    }

    pub(crate) fn failing(&self) -> MutexGuard<'_, Failing> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the brain that an outcome claimed for, and tells those whom it concerns.
    fn absorb(self: &Arc<Self>, outcome: &Outcome, permit: Option<OwnedSemaphorePermit>) {
        self.signals.publish(&outcome.state);
        self.timer.hear(outcome.state.next_deadline());
        let idle = |record: &Record| record.kind == Kind::SessionIdle;
        if let Some(hand) = outcome.state.hand
            && outcome.records.iter().any(idle)
        {
            self.publish_soon(outcome.state.id, hand.incarnation);
        }
        let claimed = Lease::claimed(self, outcome, permit);
        if let Some(lease) = claimed {
            // Nobody receives while the process ends; the lease then gives itself back.
            drop(self.claims.try_send(lease));
        }
        let threads = (0_u32..).take(outcome.state.threads.len());
        if threads
            .into_iter()
            .any(|thread| outcome.state.ready_at(thread).is_some())
        {
            self.wake.notify_one();
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("life", &self.0.life)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}
