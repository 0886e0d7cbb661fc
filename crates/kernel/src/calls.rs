//! Calls: allowed by the log, run at most once, settled once.

use std::{borrow::Cow, sync::Arc, time::Duration};

use outlast_hands::{CallError, Fence, Hand, HandLost as Lost, Recalled, Silence};
use outlast_protocol::{
    CallResult, Outcome,
    event::{AgentToolResult, Body as _},
    id::{EventId, IncarnationId, ProcessId},
};
use outlast_session::{Answer, Fact, Phase, Proposal, Route, State, body::HandLost};
use outlast_store::Slice;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    HandLife, Lease, LeaseError,
    checkpoint::Use,
    kernel::Inner,
    lease::{died, joined},
    life::Halt,
    metric_definitions as metrics, shown,
};

/// How often a process that was declared dead looks who took its sessions.
const LOOK: Duration = Duration::from_secs(1);

/// How long a closing process waits for a call that it wants stopped.
const FAREWELL: Duration = Duration::from_secs(5);

/// A call on its way, free of the lease's life.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) inner: Arc<Inner>,
    pub(crate) session: outlast_protocol::id::SessionId,
    pub(crate) thread: u32,
    pub(crate) epoch: u64,
    pub(crate) process: ProcessId,
}

/// What came of asking a hand.
enum Asked {
    /// The call is settled.
    Settled,
    /// The hand was gone before it had the call, which the log knows of the hand by now.
    NotStarted(Lost),
}

/// What the log says of a call.
#[derive(Deserialize)]
struct Wanted<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    input: &'a RawValue,
}

impl Lease {
    /// Has a call run by whoever it belongs to and settles it, at most once.
    ///
    /// Name and input are those that stand in the log: what was allowed is what runs. Asking again
    /// joins the running call or finds it settled. The call goes on if the future is dropped.
    pub async fn execute(&self, call: EventId) -> Result<(), LeaseError> {
        let job = self.job();
        let handle = self.inner.tasks.spawn(async move { job.run(call).await });
        handle.await.unwrap_or_else(|fault| Err(died(fault)))
    }

    /// Stops a call: it is settled as done if it was faster, else as interrupted.
    ///
    /// That goes on if the future is dropped: a hand that does not answer hears of it when it does.
    pub async fn cancel(&self, call: EventId) {
        let state = self.state();
        let phase = self
            .held(&state)
            .and_then(|thread| thread.call(call))
            .map(|open| open.phase);
        if let Some(Phase::Intended(incarnation)) = phase {
            // Fails only if the runtime ends.
            drop(self.inner.stop(incarnation, call).await);
        }
    }

    fn job(&self) -> Job {
        Job {
            inner: self.inner.clone(),
            session: self.session(),
            thread: self.thread_number(),
            epoch: self.epoch(),
            process: self.process(),
        }
    }
}

impl Inner {
    /// Stops a call, however long its hand does not answer, unless this process closes meanwhile; it
    /// goes on if nobody waits for it.
    pub(crate) fn stop(
        self: &Arc<Self>,
        incarnation: IncarnationId,
        call: EventId,
    ) -> JoinHandle<()> {
        let inner = self.clone();
        self.tasks.spawn(async move {
            let closed = async {
                inner.closing.cancelled().await;
                sleep(FAREWELL).await;
            };
            tokio::select! {
                biased;
                () = inner.hands.stop(incarnation, call) => {}
                () = closed => {}
            }
        })
    }
}

impl Job {
    async fn run(&self, call: EventId) -> Result<(), LeaseError> {
        let state = self.state().await?;
        let open = state
            .thread(self.thread)
            .and_then(|thread| thread.call(call));
        let open = open.ok_or_else(|| LeaseError::Illegal(format!("no call `{call}` is open")))?;
        if open.route == Route::Client {
            return Err(LeaseError::Illegal(format!(
                "`{call}` is the client's to answer"
            )));
        }
        self.inner.life.check(self.process)?;
        match open.phase {
            Phase::Settled(_) => Ok(()),
            Phase::Asked => Err(LeaseError::Illegal(format!(
                "`{call}` is not allowed to run"
            ))),
            Phase::Allowed => self.begin(call, open.position).await,
            Phase::Intended(incarnation) => {
                let hands = &self.inner.hands;
                let found = hands.heard(async {
                    self.fence_off(&state).await;
                    hands.find(incarnation).await
                });
                match found.await {
                    Ok(hand) => self.resume(call, open.position, incarnation, hand).await,
                    Err(silence) => self.give_up(call, incarnation, &silence).await,
                }
            }
        }
    }

    /// Hands a call over for the first time.
    ///
    /// A hand that was found gone before it had the call costs the model nothing, once: the next one
    /// gets it.
    async fn begin(&self, call: EventId, position: u64) -> Result<(), LeaseError> {
        let mut again = true;
        loop {
            let hand = match self.inner.hands.heard(self.hand()).await {
                Ok(hand) => hand?,
                Err(silence) => Err(unreached(&silence)),
            };
            let hand = match hand {
                Ok(hand) => hand,
                Err(result) => return self.settle(call, result).await,
            };
            let intended = Fact::Intended(hand.incarnation());
            if self.fact(call, intended).await? != Answer::Appended {
                // An interrupt waits, or somebody else was first: the brain will see.
                return Ok(());
            }
            match self.ask(call, position, &hand).await? {
                Asked::Settled => return Ok(()),
                Asked::NotStarted(_) if again => again = false,
                Asked::NotStarted(lost) => return self.settle(call, ended(&lost)).await,
            }
        }
    }

    /// Has every hand that the log names refuse the brains before this one, which may still be at
    /// work somewhere: only then does what a hand says of a call stay true.
    async fn fence_off(&self, state: &State) {
        for incarnation in state.named_hands() {
            if let Some(hand) = self.inner.hands.find(incarnation).await
                && let Err(lost) = hand.raise(self.fence()).await
            {
                tracing::debug!("a hand is not fenced, it is gone: {lost}");
            }
        }
    }

    /// Asks for a call again that an earlier brain handed over.
    async fn resume(
        &self,
        call: EventId,
        position: u64,
        incarnation: IncarnationId,
        hand: Option<Arc<dyn Hand>>,
    ) -> Result<(), LeaseError> {
        if let Some(hand) = hand {
            return match self.ask(call, position, &hand).await? {
                Asked::Settled => Ok(()),
                Asked::NotStarted(_) => self.begin(call, position).await,
            };
        }
        let reason = "the process that ran it has ended";
        self.lost(HandLost::of(incarnation, reason)).await?;
        let hands = &self.inner.hands;
        let recalled = match hands.heard(hands.recall(incarnation, call)).await {
            Ok(recalled) => recalled,
            Err(silence) => return self.give_up(call, incarnation, &silence).await,
        };
        match recalled {
            Recalled::Settled(result) => self.settle(call, result).await,
            // The incarnation itself says so: a new one may have it.
            Recalled::NotStarted => self.begin(call, position).await,
            Recalled::Begun | Recalled::Unknown => self.settle(call, unknown(reason)).await,
        }
    }

    /// Runs the call, or joins it, and settles it, unless its hand was gone before.
    async fn ask(
        &self,
        call: EventId,
        position: u64,
        hand: &Arc<dyn Hand>,
    ) -> Result<Asked, LeaseError> {
        let slice = Slice::after(position.saturating_sub(1), 1);
        let read = || self.inner.store.read(self.session, slice.clone());
        let records = self.inner.patiently(read).await?;
        let text = records.first().map_or("{}", |record| record.body.text());
        let Ok(wanted) = serde_json::from_str::<Wanted<'_>>(text) else {
            let words = "the call's input is no longer stored";
            let result = CallResult::error(Outcome::NotStarted, words);
            return self.settle(call, result).await.map(|()| Asked::Settled);
        };
        let fence = self.fence();
        let using = Use::begin(&self.inner, self.session, hand.incarnation()).await;
        // As late as can be: a process that was stopped and goes on here has nothing run.
        self.inner.life.check(self.process)?;
        let done = tokio::select! {
            biased;
            done = hand.execute(fence, call, &wanted.name, wanted.input) => done,
            () = self.left_alone() => {
                return Err(LeaseError::Unavailable("the server closes, the call goes on".to_owned()));
            }
            () = self.inner.life.died(self.process) => {
                let job = self.clone();
                self.inner.tasks.spawn(job.abandon(call, hand.incarnation()));
                return Err(Halt::Dead.into());
            }
            silence = self.inner.hands.provisioner.given_up() => {
                let given_up = self.give_up(call, hand.incarnation(), &silence).await;
                return given_up.map(|()| Asked::Settled);
            }
        };
        let result = match done {
            Ok(result) => result,
            Err(stale @ CallError::Stale { .. }) => {
                return Err(LeaseError::Over(stale.to_string()));
            }
            Err(CallError::Lost(lost)) => {
                self.lost(HandLost::of(hand.incarnation(), &lost.reason))
                    .await?;
                if !lost.handed_over {
                    return Ok(Asked::NotStarted(lost));
                }
                unknown(&lost.reason)
            }
        };
        // Begun before the result is told, so that whoever hears of it can wait for the outputs.
        self.inner.publish_soon(self.session, hand.incarnation());
        let settled = self.settle(call, result).await;
        // Afterwards: a checkpoint that is due waits for no result, and no result for it.
        drop(using);
        settled.map(|()| Asked::Settled)
    }

    /// Settles a call of a hand that does not answer, and has it stopped once the hand does: the
    /// session goes on without it, and what it comes to then is told to nobody.
    async fn give_up(
        &self,
        call: EventId,
        incarnation: IncarnationId,
        silence: &Silence,
    ) -> Result<(), LeaseError> {
        drop(self.inner.stop(incarnation, call));
        self.settle(call, unanswered(silence)).await
    }

    /// Stops a call that a dead brain had run, once a brain elsewhere goes on without it.
    ///
    /// One here joins it, under the id that this process goes on with.
    async fn abandon(self, call: EventId, hand: IncarnationId) {
        let taken = async {
            loop {
                sleep(LOOK).await;
                let Ok(state) = self.state().await else {
                    continue;
                };
                let thread = state.thread(self.thread);
                let Some(thread) = thread.filter(|thread| thread.epoch != self.epoch) else {
                    continue;
                };
                let lease = thread.lease.as_ref();
                return lease.is_none_or(|lease| !self.inner.life.is(lease.process));
            }
        };
        let elsewhere = tokio::select! {
            biased;
            elsewhere = taken => elsewhere,
            () = self.inner.closing.cancelled() => return,
        };
        if elsewhere {
            ::metrics::counter!(metrics::ABANDONED).increment(1);
            tracing::warn!(session.id = %self.session, "stopping `{call}`: another node goes on without it");
            drop(self.inner.stop(hand, call).await);
        }
    }

    /// Waits until this process closes and its hands go on without it: the next one asks again.
    async fn left_alone(&self) {
        match self.inner.options.hand_life {
            HandLife::WithServer => std::future::pending().await,
            HandLife::OfTheirOwn => self.inner.closing.cancelled().await,
        }
    }

    /// Returns the right that hands are asked with.
    pub(crate) fn fence(&self) -> Fence {
        Fence {
            thread: self.thread,
            epoch: self.epoch,
        }
    }

    /// Records the end of a call; a second end changes nothing.
    async fn settle(&self, call: EventId, result: CallResult) -> Result<(), LeaseError> {
        let state = self.state().await?;
        let result = self.inner.swept(&state, shown::fit(result)).await?;
        let (result, told) = self.with_news(&state, call, result).await?;
        let outcome = result.outcome;
        let label = format!("{outcome:?}").to_lowercase();
        ::metrics::counter!(metrics::CALLS, "outcome" => label).increment(1);
        let body = AgentToolResult::new(call, result).to_raw().into();
        let fact = Fact::Settled(outcome, self.inner.event_id(), body);
        let settled = self.fact(call, fact).await;
        if let Some(hand) = told
            && !matches!(settled, Ok(Answer::Appended))
        {
            self.inner.hands.placed.unheard(hand);
        }
        settled.map(drop)
    }

    /// Records that a hand is gone.
    pub(crate) async fn lost(&self, lost: HandLost) -> Result<(), LeaseError> {
        ::metrics::counter!(metrics::HANDS_LOST).increment(1);
        self.inner.hands.outlets.revoke(lost.incarnation).await;
        let key = self.inner.event_id();
        self.fact(key, Fact::HandLost(lost)).await.map(drop)
    }

    /// Appends a fact for the brain.
    pub(crate) async fn fact(&self, key: EventId, fact: Fact) -> Result<Answer, LeaseError> {
        let proposal = Proposal::Keyed {
            thread: self.thread,
            epoch: self.epoch,
            key,
            fact,
        };
        let line = (self.session, self.thread, self.epoch);
        Ok(joined(self.inner.insist(line, proposal)).await?.answer)
    }

    /// Returns the state at the head.
    pub(crate) async fn state(&self) -> Result<Arc<State>, LeaseError> {
        let head = || self.inner.store.head(self.session);
        Ok(self.inner.patiently(head).await?)
    }
}

/// Returns the words for a call that no hand had.
fn ended(lost: &Lost) -> CallResult {
    let words = format!(
        "the sandbox was lost before this call started ({}): {NEXT}",
        lost.reason
    );
    CallResult::error(Outcome::NotStarted, words)
}

/// What follows the loss of a sandbox.
const NEXT: &str = "the next call gets a new sandbox with the files of the last one in /workspace, \
    but no running processes or shell state";

/// Returns the words for a call that could not be handed over.
fn unreached(silence: &Silence) -> CallResult {
    let words = format!("no sandbox could be reached, the call did not run: {silence}; {AGAIN}");
    CallResult::error(Outcome::NotStarted, words)
}

/// Returns the words for a call whose sandbox may be at it still.
fn unanswered(silence: &Silence) -> CallResult {
    CallResult::error(
        Outcome::MayHaveRun,
        format!(
            "the sandbox stopped answering while this call was running ({silence}); the call may \
             have run in whole or in part, and is stopped if the sandbox goes on: {AGAIN}"
        ),
    )
}

/// What follows a silence.
const AGAIN: &str = "sandboxes are kept as they are, and calls work again as soon as it answers";

/// Returns the words for a call of which nobody can say whether it ran.
fn unknown(reason: &str) -> CallResult {
    CallResult::error(
        Outcome::MayHaveRun,
        format!(
            "the sandbox was lost while this call was running ({reason}); the call may have run in \
             whole or in part, check before repeating it: {NEXT}"
        ),
    )
}
