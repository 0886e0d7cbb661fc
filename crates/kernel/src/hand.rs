//! The life of hands: wanted when first needed, replaced when lost, let go when unused.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use outlast_hands::{
    Hand, Keep, ProvisionError, Provisioner, Recalled, Recipe, Silence, files::Packed,
    packages::Wanted,
};
use outlast_protocol::{
    CallResult, Metadata, Micros, Outcome,
    environment::Packages,
    id::{EventId, IncarnationId, SessionId},
};
use outlast_session::{
    Fact, State,
    body::{HandLost, HandWanted},
};
use outlast_store::ResourceKind;
use serde::Deserialize;
use tokio::{sync::Mutex as Turn, time::Instant};

use crate::{
    LeaseError,
    calls::Job,
    files::Placed,
    kernel::Inner,
    metric_definitions as metrics,
    network::{Network, Outlets},
    per_session::PerSession,
    workspace::Unmade,
};

/// The metadata of an environment that chooses an image.
pub(crate) const IMAGE: &str = outlast_protocol::environment::IMAGE;

/// What is said of a hand whose end was nothing to tell.
const RESTED: &str = "it is not running any more, as after it lay unused";

/// The name of the hand that the standard tools use.
const DEFAULT: &str = "default";

/// The hands of this node.
#[derive(Debug)]
pub(crate) struct Hands {
    pub(crate) provisioner: Arc<dyn Provisioner>,
    /// One at a time makes a session's hand.
    turns: PerSession<Turn<()>>,
    seen: Mutex<BTreeMap<IncarnationId, Seen>>,
    pub(crate) placed: Placed,
    pub(crate) outlets: Outlets,
}

/// What this process knows of a hand that lives, by a clock that nobody sets.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// When it was made.
    born: Instant,
    /// When it was last used.
    used: Instant,
}

impl Seen {
    /// Takes note of a hand. The time of day counts this once: whether it is set forward or back later
    /// on makes no hand older.
    fn now(incarnation: IncarnationId, at: Micros) -> Self {
        let (used, age) = (Instant::now(), at.since(incarnation.minted_at()));
        // Older than the machine is up it cannot be.
        let born = used.checked_sub(age).unwrap_or(used);
        Self { born, used }
    }

    /// Tells whether it is older than a hand may become.
    fn is_old(&self, age: Option<Duration>) -> bool {
        age.is_some_and(|age| self.born.elapsed() >= age)
    }
}

impl Hands {
    pub(crate) fn new(
        provisioner: Arc<dyn Provisioner>,
        network: Option<Arc<dyn Network>>,
    ) -> Self {
        let outlets = Outlets::new(&*provisioner, network);
        Self {
            provisioner,
            turns: PerSession::default(),
            seen: Mutex::default(),
            placed: Placed::default(),
            outlets,
        }
    }

    /// Returns what makes hands.
    pub(crate) fn provisioner(&self) -> &dyn Provisioner {
        &*self.provisioner
    }

    /// Does something that hands have a part in, but waits for none that has not answered for long.
    ///
    /// What is given up may be done all the same, once they answer again.
    pub(crate) async fn heard<T>(&self, doing: impl Future<Output = T>) -> Result<T, Silence> {
        tokio::select! {
            biased;
            silence = self.provisioner.given_up() => Err(silence),
            done = doing => Ok(done),
        }
    }

    /// Does so with what a disk or a stream may refuse too.
    pub(crate) async fn heard_io<T>(
        &self,
        doing: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        self.heard(doing).await.map_err(io::Error::other).flatten()
    }

    /// Stops a call; it is over when this returns.
    pub(crate) async fn stop(&self, incarnation: IncarnationId, call: EventId) {
        if let Some(hand) = self.find(incarnation).await {
            hand.cancel(call).await;
        }
    }

    /// Returns a hand that lives.
    pub(crate) async fn find(&self, incarnation: IncarnationId) -> Option<Arc<dyn Hand>> {
        self.provisioner.find(incarnation).await
    }

    /// Asks what became of a call of a hand that may be dead.
    pub(crate) async fn recall(&self, incarnation: IncarnationId, call: EventId) -> Recalled {
        self.provisioner.recall(incarnation, call).await
    }

    /// Says what ended a hand that is not running any more, as far as that is known.
    async fn fate(&self, incarnation: IncarnationId) -> String {
        let fate = self.provisioner.fate(incarnation).await;
        fate.unwrap_or_else(|| RESTED.to_owned())
    }

    /// Notes that a hand was used just now.
    pub(crate) fn used(&self, incarnation: IncarnationId, now: Micros) {
        let mut seen = self.seen();
        let hand = seen.entry(incarnation);
        hand.or_insert_with(|| Seen::now(incarnation, now)).used = Instant::now();
    }

    /// Notes that a call in a hand is over; one that was reaped meanwhile is not brought back.
    pub(crate) fn left(&self, incarnation: IncarnationId) {
        if let Some(hand) = self.seen().get_mut(&incarnation) {
            hand.used = Instant::now();
        }
    }

    /// Packs the workspace of a hand.
    pub(crate) async fn checkpoint(&self, incarnation: IncarnationId) -> io::Result<Packed> {
        let packing = self.provisioner.checkpoint(incarnation);
        self.heard_io(packing).await
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<IncarnationId, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of hands that live and that nobody asked for yet, such as those of the server
    /// before this one: from now on they lie unused.
    pub(crate) async fn notice(&self, listed: &[IncarnationId], now: Micros) {
        let mut live = 0_u32;
        for incarnation in listed {
            if self.find(*incarnation).await.is_some() {
                live += 1;
                let mut seen = self.seen();
                seen.entry(*incarnation)
                    .or_insert_with(|| Seen::now(*incarnation, now));
            }
        }
        ::metrics::gauge!(metrics::HANDS_LIVE).set(live);
    }

    /// Tells whether this process knows of a hand that it lives.
    pub(crate) fn has(&self, incarnation: IncarnationId) -> bool {
        self.seen().contains_key(&incarnation)
    }

    /// Tells whether a hand is older than it may become.
    fn is_old(&self, incarnation: IncarnationId, age: Option<Duration>, now: Micros) -> bool {
        let seen = self.seen().get(&incarnation).copied();
        let hand = seen.unwrap_or_else(|| Seen::now(incarnation, now));
        hand.is_old(age)
    }

    /// Lets go of one hand; its workspace stays.
    async fn let_go(&self, incarnation: IncarnationId, why: &'static str) {
        ::metrics::counter!(metrics::HANDS_REAPED, "why" => why).increment(1);
        self.reap(incarnation, Keep::Layer).await;
    }

    /// Lets go of hands that nobody used for `idle`, of those that are older than `age`, and of the
    /// longest unused ones beyond `most`, if they may go, which one in use may not; their workspaces
    /// stay.
    pub(crate) async fn rest(
        &self,
        Rest { idle, age, most }: Rest,
        may: impl Fn(IncarnationId) -> bool,
    ) {
        let expired: Vec<_> = {
            let seen = self.seen();
            let why = |(id, hand): (&IncarnationId, &Seen)| match hand.used.elapsed() >= idle {
                true => Some((*id, "idle")),
                false => hand.is_old(age).then_some((*id, "age")),
            };
            let expired = seen.iter().filter_map(why);
            let mut expired: Vec<_> = expired.filter(|(id, _)| may(*id)).collect();
            let goes = |id| expired.iter().any(|(gone, _)| *gone == id);
            let stay = seen.iter().filter(|(id, _)| !goes(**id));
            let mut stay: Vec<_> = stay.map(|(id, hand)| (hand.used, *id)).collect();
            stay.sort_unstable_by_key(|(used, _)| *used);
            let beyond = stay.len().saturating_sub(most);
            let free = stay.into_iter().map(|(_, id)| id).filter(|id| may(*id));
            expired.extend(free.take(beyond).map(|id| (id, "most")));
            expired
        };
        for (incarnation, why) in expired {
            self.let_go(incarnation, why).await;
        }
    }

    /// Returns how many hands this process knows to live.
    pub(crate) fn count(&self) -> usize {
        self.seen().len()
    }

    /// Returns what lives or has left something on this node.
    pub(crate) async fn list(&self) -> Vec<IncarnationId> {
        self.provisioner.list().await
    }

    /// Removes what no session names any more.
    pub(crate) async fn bury(&self, orphans: impl IntoIterator<Item = IncarnationId>) {
        for incarnation in orphans {
            tracing::info!(hand.id = %incarnation, "no session names `{incarnation}`: it goes");
            ::metrics::counter!(metrics::HANDS_REAPED, "why" => "orphan").increment(1);
            self.reap(incarnation, Keep::Nothing).await;
        }
    }

    /// Removes every hand that a session ever had, with its workspace: the session is over.
    pub(crate) async fn forget(&self, state: &State) {
        let newest = state.hand.map(|hand| hand.incarnation);
        for incarnation in state.past_hands.iter().copied().chain(newest) {
            self.reap(incarnation, Keep::Nothing).await;
        }
    }

    async fn reap(&self, incarnation: IncarnationId, keep: Keep) {
        self.seen().remove(&incarnation);
        self.placed.forget(incarnation);
        self.outlets.revoke(incarnation).await;
        let reaping = self.heard(self.provisioner.reap(incarnation, keep)).await;
        let fault = match reaping {
            Ok(Ok(())) => return,
            Ok(Err(fault)) => fault.to_string(),
            Err(silence) => silence.to_string(),
        };
        // A survey finds it, and ends it if no session names it.
        tracing::warn!(hand.id = %incarnation, "cannot reap `{incarnation}`: {fault}");
    }

    pub(crate) fn turn(&self, session: SessionId) -> Arc<Turn<()>> {
        self.turns.get(session)
    }
}

/// When hands are let go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    /// How long one may lie unused.
    pub(crate) idle: Duration,
    /// How old one may become.
    pub(crate) age: Option<Duration>,
    /// How many may live, as far as those in use leave any to be let go.
    pub(crate) most: usize,
}

/// What of an environment says which image it wants, and which packages.
#[derive(Default, Deserialize)]
struct Chosen {
    #[serde(default)]
    metadata: Metadata,
    config: Option<Config>,
}

/// What of its configuration does.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    packages: Packages,
}

impl Job {
    /// Returns the session's hand, made now if there is none.
    ///
    /// A life that is recorded and never began, because of a crash or a failure, is begun now:
    /// a successor would look for files with it that it never took over. The inner error is what
    /// the model reads: no hand could be made.
    pub(crate) async fn hand(&self) -> Result<Result<Arc<dyn Hand>, CallResult>, LeaseError> {
        let turn = self.inner.hands.turn(self.session);
        let _one = turn.lock().await;
        let state = self.state().await?;
        let got = self.living(&state).await?;
        if let Ok(hand) = &got {
            self.inner.place(&state, hand.incarnation()).await;
            self.tell_unreachable(&state, hand.incarnation()).await?;
            self.clone_repositories(&state, hand).await?;
        }
        Ok(got)
    }

    /// Returns the hand of a state, made now if there is none. The caller has the turn.
    async fn living(&self, state: &State) -> Result<Result<Arc<dyn Hand>, CallResult>, LeaseError> {
        let Some(hand) = state.hand.filter(|hand| !hand.lost) else {
            return self.make(state).await;
        };
        let known = self.inner.hands.provisioner.known(hand.incarnation);
        let found = match known {
            Some(known) => Some(known),
            None => self.inner.hands.find(hand.incarnation).await,
        };
        let lost = match found {
            Some(_) if self.is_worn_out(hand.incarnation) => {
                self.inner.hands.let_go(hand.incarnation, "age").await;
                HandLost::of(hand.incarnation, "it was as old as a sandbox may become")
            }
            Some(found) => {
                let now = self.inner.clock.now();
                self.inner.hands.used(hand.incarnation, now);
                self.inner.adopt_one(self.session, hand.incarnation).await;
                return Ok(Ok(found));
            }
            None => match self.begin_life(state, hand.incarnation).await {
                Err(Unmade::Failed(ProvisionError::Ended { .. })) => {
                    let fate = self.inner.hands.fate(hand.incarnation).await;
                    HandLost::of(hand.incarnation, &fate)
                }
                Err(Unmade::Gone(lost)) => lost,
                made => return Ok(self.told(made)),
            },
        };
        self.lost(lost).await?;
        let state = self.state().await?;
        self.make(&state).await
    }

    /// Tells whether a hand is too old for another call, and no other one runs in it. In a turn whose
    /// calls follow each other closely there is no other moment to let go of it.
    fn is_worn_out(&self, incarnation: IncarnationId) -> bool {
        let Inner { hands, options, .. } = &*self.inner;
        hands.is_old(incarnation, options.hand_age, self.inner.clock.now())
            && self.inner.checkpoints.is_free(incarnation)
    }

    /// Makes the next incarnation; recorded before it exists, so that none is ever unknown.
    async fn make(&self, state: &State) -> Result<Result<Arc<dyn Hand>, CallResult>, LeaseError> {
        let (clock, entropy) = (&self.inner.clock, &self.inner.entropy);
        let incarnation = IncarnationId::mint(clock.now(), &**entropy);
        let (predecessor, loss) = match self.heritage(state).await {
            Ok(heritage) => heritage,
            Err(fault) => return Ok(self.told(Err(fault))),
        };
        // Removed before it is recorded, so that a crash between the two forgets none of them.
        let mut forgotten = state.dispensable_hands();
        forgotten.retain(|past| Some(*past) != predecessor);
        for past in &forgotten {
            self.inner.hands.reap(*past, Keep::Nothing).await;
        }
        let networking = match self.allowed(state, incarnation).await {
            Ok(networking) => networking,
            Err(fault) => return Ok(self.told(Err(Unmade::Failed(fault)))),
        };
        let wanted = HandWanted {
            name: DEFAULT.to_owned(),
            incarnation,
            predecessor,
            forgotten,
            loss,
            networking,
        };
        self.fact(self.inner.event_id(), Fact::HandWanted(wanted))
            .await?;
        let state = self.state().await?;
        let newest = state.hand.map(|hand| hand.incarnation);
        if newest != Some(incarnation) {
            return Err(LeaseError::Illegal(
                "another hand was wanted meanwhile".to_owned(),
            ));
        }
        let begun = match predecessor {
            Some(_) => self.begin_life(&state, incarnation).await,
            // The session's first: nobody can have anything of it yet, so nobody is asked.
            None => {
                self.inner.hands.placed.begin(incarnation);
                let made = self.provision(&state, incarnation, None).await;
                made.map_err(Unmade::from)
            }
        };
        let made = match begun {
            Err(Unmade::Gone(lost)) => {
                self.lost(lost).await?;
                let state = self.state().await?;
                return Box::pin(self.make(&state)).await;
            }
            made => made,
        };
        if let Some(predecessor) = predecessor {
            self.inner.checkpoints.forget(predecessor);
        }
        Ok(self.told(made))
    }

    /// Has a driver begin a life.
    pub(crate) async fn provision(
        &self,
        state: &State,
        incarnation: IncarnationId,
        predecessor: Option<IncarnationId>,
    ) -> Result<Arc<dyn Hand>, ProvisionError> {
        let Chosen { metadata, config } = self.chosen(state, incarnation).await?;
        if let Some(predecessor) = predecessor {
            self.inner.hands.outlets.revoke(predecessor).await;
        }
        let bound = self.binding(state, incarnation).await?;
        let outlet = match &bound {
            Some(bound) => self.dress(bound).await?,
            None => None,
        };
        let options = &self.inner.options;
        let wanted = |packages| Wanted {
            packages,
            mirrors: options.mirrors.clone(),
            rest: self
                .inner
                .hands
                .outlets
                .rest(bound.as_ref().map(|bound| &bound.networking)),
            limit: options.install,
        };
        let recipe = Recipe {
            incarnation,
            predecessor,
            image: metadata.get(IMAGE).cloned(),
            packages: config
                .map(|config| config.packages)
                .filter(|packages| !packages.is_empty())
                .map(wanted),
            limits: self.inner.options.limits,
            require: self.inner.options.require.clone(),
            outlet,
        };
        let started = Instant::now();
        let hands = &self.inner.hands;
        let making = hands.provisioner.provision(&recipe);
        let fetched = recipe.packages.as_ref().is_some_and(Wanted::is_fetched);
        let made = match bound.as_ref().filter(|_| fetched) {
            Some(bound) => {
                hands
                    .outlets
                    .while_made(hands.provisioner(), bound, making)
                    .await
            }
            None => making.await,
        };
        ::metrics::histogram!(metrics::PROVISION).record(started.elapsed().as_secs_f64());
        if let (Ok(_), Some(bound)) = (&made, bound) {
            self.inner.attach(bound).await;
        }
        made
    }

    /// Returns what the session's environment chooses, as it is by now.
    async fn chosen(
        &self,
        state: &State,
        incarnation: IncarnationId,
    ) -> Result<Chosen, ProvisionError> {
        let failed = |reason: String| unread(incarnation, reason);
        let Some(config) = &state.config else {
            return Ok(Chosen::default());
        };
        let id = config.environment_id.to_string();
        let store = &self.inner.store;
        let find = || store.get(ResourceKind::Environment, &id, None);
        let found = self.inner.patiently(find).await;
        let found = found.map_err(|error| failed(error.to_string()))?;
        serde_json::from_str(found.body.get()).map_err(|error| failed(error.to_string()))
    }

    /// Puts a failure into words for the model; the next call tries the same life again.
    fn told(&self, made: Result<Arc<dyn Hand>, Unmade>) -> Result<Arc<dyn Hand>, CallResult> {
        let now = self.inner.clock.now();
        made.inspect(|hand| self.inner.hands.used(hand.incarnation(), now))
            .map_err(|fault| {
                tracing::error!(session.id = %self.session, "cannot make a hand: {fault}");
                let words = format!("no sandbox could be started, the call did not run: {fault}");
                CallResult::error(Outcome::NotStarted, words)
            })
    }
}

/// Says that it is not known what a hand is to be made like.
pub(crate) fn unread(incarnation: IncarnationId, reason: String) -> ProvisionError {
    ProvisionError::Step {
        incarnation,
        step: "read the environment".to_owned(),
        reason,
        mend: None,
    }
}
