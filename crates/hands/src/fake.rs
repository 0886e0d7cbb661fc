//! Hands that only pretend, for tests of what uses hands.
//!
//! They keep every promise of the seam (they pass [`crate::conformance`]), run nothing, and count.

mod files;
mod node;
mod outlets;
mod silence;

use std::{
    collections::BTreeMap,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use outlast_protocol::{
    CallResult, Outcome,
    id::{EventId, IncarnationId},
};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::{
    CallError, Fence, Hand, HandLost, Promise, Recalled, Recipe, conformance::Deed,
    error::ON_REQUEST, fence::Fences, files::Abilities, packages::Wanted,
};
use files::{Layer, Uploads};
use outlets::Outlet;
use silence::{Stopped, answering};

/// One call that a pretended hand began to execute.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Whose hand.
    pub incarnation: IncarnationId,
    /// The call.
    pub call: EventId,
    /// The tool.
    pub name: String,
    /// Its input, as it came.
    pub input: String,
}

/// What a pretended hand does with a call.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Answers at once.
    Now(CallResult),
    /// Answers later, by tokio's clock.
    After(Duration, CallResult),
    /// Runs until it is cancelled or the hand dies.
    Never,
    /// The hand dies of it.
    Die,
    /// Does what the input says, a [`Deed`], with pretended files.
    Deed,
}

/// Makes pretended hands.
#[derive(Clone, Debug)]
pub struct Fakes {
    shared: Arc<Shared>,
}

/// Decides what a call comes to.
type Script = Box<dyn Fn(&Asked) -> Reply + Send + Sync>;

/// What all hands share.
struct Shared {
    script: Script,
    abilities: Abilities,
    tasks: TaskTracker,
    stopped: Stopped,
    state: Mutex<State>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// What changes.
#[derive(Debug, Default)]
struct State {
    hands: BTreeMap<IncarnationId, Arc<FakeHand>>,
    asked: Vec<Asked>,
    provisioned: Vec<Recipe>,
    refusal: Option<String>,
    /// Whether nobody can say what is here.
    unknown: bool,
    /// What each workspace holds.
    layers: BTreeMap<IncarnationId, Layer>,
    /// What each hand shows.
    uploads: BTreeMap<IncarnationId, Uploads>,
    /// How long what is fetched takes to be installed.
    fetching: Duration,
    /// Ways out of installations that run.
    installing: BTreeMap<IncarnationId, Outlet>,
}

impl Fakes {
    /// Makes hands that answer as the script says; it is asked once per call.
    pub fn new(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::with(Abilities::ALL, script)
    }

    /// The same, of a driver that has no more than this beside calls.
    pub fn with(
        abilities: Abilities,
        script: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let shared = Shared {
            script: Box::new(script),
            abilities,
            tasks: TaskTracker::new(),
            stopped: Stopped::default(),
            state: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Makes hands that answer every call with `ok` and the tool's name.
    pub fn obliging() -> Self {
        Self::new(|asked| Reply::Now(CallResult::text(format!("ok {}", asked.name))))
    }

    /// Returns every call that any hand began to execute, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.state().asked.clone()
    }

    /// Returns how often a call was executed; more than once would be a broken promise.
    pub fn executions(&self, call: EventId) -> usize {
        self.shared
            .state()
            .asked
            .iter()
            .filter(|asked| asked.call == call)
            .count()
    }

    /// Tells whether a call is over, however it ended.
    pub fn is_settled(&self, call: EventId) -> bool {
        let state = self.shared.state();
        let mut hands = state.hands.values();
        hands.any(|hand| {
            let calls = hand.calls();
            let outcome = calls.outcomes.get(&call);
            outcome.is_some_and(|outcome| outcome.borrow().is_some())
        })
    }

    /// Returns the recipes of all hands that were made, in order.
    pub fn provisioned(&self) -> Vec<Recipe> {
        self.shared.state().provisioned.clone()
    }

    /// Refuses to make hands from now on, or makes them again.
    pub fn refuse(&self, reason: Option<&str>) {
        self.shared.state().refusal = reason.map(str::to_owned);
    }

    /// Has packages that are fetched take so long, by tokio's clock, with a way out meanwhile.
    pub fn fetch_for(&self, long: Duration) {
        self.shared.state().fetching = long;
    }

    /// Pretends to install what a recipe wants to be fetched.
    async fn install(&self, recipe: &Recipe) -> io::Result<()> {
        let fetched = recipe.packages.as_ref().is_some_and(Wanted::is_fetched);
        let long = self.shared.state().fetching;
        if fetched && !long.is_zero() {
            let outlet = Outlet::of(recipe)?;
            let incarnation = recipe.incarnation;
            self.shared.state().installing.insert(incarnation, outlet);
            tokio::time::sleep(long).await;
            self.shared.state().installing.remove(&incarnation);
        }
        Ok(())
    }

    /// Returns what the workspace of an incarnation holds: a line for each call that ran in it or in
    /// one that it took over.
    pub fn workspace(&self, incarnation: IncarnationId) -> Option<String> {
        let state = self.shared.state();
        let layer = state.layers.get(&incarnation)?;
        Some(layer.calls.clone())
    }

    /// Refuses what this driver has not.
    fn able(&self, which: impl Fn(Abilities) -> bool) -> io::Result<()> {
        if which(self.shared.abilities) {
            Ok(())
        } else {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Returns what there is of a layer.
    fn layer<T>(
        &self,
        incarnation: IncarnationId,
        find: impl FnOnce(&Layer) -> io::Result<T>,
    ) -> io::Result<T> {
        let state = self.shared.state();
        let layer = state.layers.get(&incarnation);
        find(layer.ok_or(io::ErrorKind::NotFound)?)
    }

    /// Lets nobody know what is here, as while no host can be started; or somebody again.
    pub fn hide(&self, hidden: bool) {
        self.shared.state().unknown = hidden;
    }

    /// Loses the machine: every hand, journal and workspace.
    pub fn vanish(&self) {
        let hands = std::mem::take(&mut self.shared.state().hands);
        for hand in hands.into_values() {
            hand.die("its machine is gone");
        }
        let mut state = self.shared.state();
        state.layers.clear();
        state.uploads.clear();
    }

    /// Kills a hand, as if its machine had stopped. Its calls are lost; what it left stays listed.
    pub fn kill(&self, incarnation: IncarnationId) {
        self.end(incarnation, "it was killed");
    }

    /// Ends a hand for this reason, as a driver does whose bounds were broken.
    pub fn end(&self, incarnation: IncarnationId, reason: &str) {
        let hand = self.shared.state().hands.get(&incarnation).cloned();
        if let Some(hand) = hand {
            hand.die(reason);
        }
    }
}

impl Shared {
    /// Locks the state, never across an await.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the files of a hand.
    fn act(&self, hand: IncarnationId, deed: Deed) -> CallResult {
        let mut state = self.state();
        let State {
            layers, uploads, ..
        } = &mut *state;
        let uploads = uploads.get(&hand);
        layers.entry(hand).or_default().act(deed, uploads)
    }
}

/// What a call came to, for all who wait for it.
type Outcomes = watch::Sender<Option<Result<CallResult, HandLost>>>;

/// A pretended hand.
#[derive(Debug)]
struct FakeHand {
    incarnation: IncarnationId,
    shared: Arc<Shared>,
    calls: Mutex<Calls>,
    outlet: Outlet,
}

/// Its calls, and why it is gone.
#[derive(Debug, Default)]
struct Calls {
    outcomes: BTreeMap<EventId, Outcomes>,
    fences: Fences,
    lost: Option<String>,
}

impl FakeHand {
    /// Locks the calls, never across an await.
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the error of a call.
    fn lost(&self, reason: &str, handed_over: bool) -> HandLost {
        HandLost {
            incarnation: self.incarnation,
            reason: reason.to_owned(),
            handed_over,
        }
    }

    /// Settles a call unless it is settled.
    fn settle(&self, call: EventId, result: Result<CallResult, HandLost>) {
        let mut calls = self.calls();
        let outcome = calls
            .outcomes
            .entry(call)
            .or_insert_with(|| Outcomes::new(None));
        outcome.send_if_modified(|outcome| {
            let open = outcome.is_none();
            if open {
                *outcome = Some(result);
            }
            open
        });
    }

    /// Loses every running call.
    fn die(&self, reason: &str) {
        self.outlet.close();
        let mut calls = self.calls();
        calls.lost.get_or_insert_with(|| reason.to_owned());
        for outcome in calls.outcomes.values() {
            outcome.send_if_modified(|outcome| {
                let open = outcome.is_none();
                if open {
                    *outcome = Some(Err(self.lost(reason, true)));
                }
                open
            });
        }
    }

    /// Returns whether it is gone.
    fn is_lost(&self) -> bool {
        self.calls().lost.is_some()
    }

    /// Says what ended it, unless it lives or somebody wanted its end.
    fn fate(&self) -> Option<String> {
        let lost = self.calls().lost.clone();
        lost.filter(|reason| reason != ON_REQUEST)
    }

    /// Begins a call that is new; returns what to wait for.
    fn begin(
        self: &Arc<Self>,
        asked: Asked,
    ) -> Result<watch::Receiver<Option<Result<CallResult, HandLost>>>, HandLost> {
        let call = asked.call;
        {
            let mut calls = self.calls();
            if let Some(outcome) = calls.outcomes.get(&call) {
                return Ok(outcome.subscribe());
            }
            if let Some(reason) = &calls.lost {
                return Err(self.lost(reason, false));
            }
            calls.outcomes.insert(call, Outcomes::new(None));
        }
        {
            let mut state = self.shared.state();
            let layer = state.layers.entry(asked.incarnation).or_default();
            layer.calls.push_str(&format!("{call}\n"));
            state.asked.push(asked.clone());
        }
        match (self.shared.script)(&asked) {
            Reply::Now(result) => self.settle(call, Ok(result)),
            Reply::Never => {}
            Reply::Deed => match serde_json::from_str(&asked.input) {
                Ok(Deed::Say { word }) => {
                    let hand = Arc::clone(self);
                    self.shared.tasks.spawn(async move {
                        let result = hand.outlet.say(&word).await;
                        hand.settle(call, Ok(result));
                    });
                }
                Ok(Deed::Variable { name }) => self.settle(call, Ok(self.outlet.variable(&name))),
                Ok(deed) => {
                    let result = self.shared.act(asked.incarnation, deed);
                    self.settle(call, Ok(result));
                }
                Err(error) => {
                    let result = CallResult::error(Outcome::Done, error.to_string());
                    self.settle(call, Ok(result));
                }
            },
            Reply::Die => self.die("it died of a call"),
            Reply::After(delay, result) => {
                let hand = Arc::clone(self);
                self.shared.tasks.spawn(async move {
                    tokio::time::sleep(delay).await;
                    hand.settle(call, Ok(result));
                });
            }
        }
        Ok(self
            .calls()
            .outcomes
            .entry(call)
            .or_insert_with(|| Outcomes::new(None))
            .subscribe())
    }

    /// Says what became of a call.
    fn recall(&self, call: EventId) -> Recalled {
        match self
            .calls()
            .outcomes
            .get(&call)
            .map(|outcome| outcome.borrow().clone())
        {
            None => Recalled::NotStarted,
            Some(Some(Ok(result))) => Recalled::Settled(result),
            Some(None | Some(Err(_))) => Recalled::Begun,
        }
    }
}

/// A hand as the seam wants it: `execute` needs the shared handle to go on without its caller.
#[derive(Debug)]
struct Handle(Arc<FakeHand>);

#[async_trait]
impl Hand for Handle {
    fn incarnation(&self) -> IncarnationId {
        self.0.incarnation
    }

    fn promise(&self) -> Promise {
        Promise::Journalled
    }

    async fn raise(&self, fence: Fence) -> Result<(), HandLost> {
        answering(&self.0.shared.stopped).await;
        let mut calls = self.0.calls();
        if let Some(reason) = &calls.lost {
            return Err(self.0.lost(reason, false));
        }
        calls.fences.raise(fence);
        Ok(())
    }

    async fn execute(
        &self,
        fence: Fence,
        call: EventId,
        name: &str,
        input: &RawValue,
    ) -> Result<CallResult, CallError> {
        answering(&self.0.shared.stopped).await;
        self.0.calls().fences.admit(self.0.incarnation, fence)?;
        let (name, input) = (name.to_owned(), input.get().to_owned());
        let asked = Asked {
            incarnation: self.0.incarnation,
            call,
            name,
            input,
        };
        let mut wait = self.0.begin(asked)?;
        let outcome = wait.wait_for(Option::is_some).await;
        let outcome = outcome.ok().and_then(|outcome| outcome.clone());
        answering(&self.0.shared.stopped).await;
        let outcome = outcome.unwrap_or_else(|| Err(self.0.lost("it was dropped", true)));
        Ok(outcome?)
    }

    async fn cancel(&self, call: EventId) {
        answering(&self.0.shared.stopped).await;
        if !self.0.is_lost() {
            let result = CallResult::error(Outcome::Interrupted, "the call was interrupted");
            self.0.settle(call, Ok(result));
        }
    }
}
