//! One sandbox as a hand: calls, each at most once, and what becomes of them.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::TcpListener,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use async_trait::async_trait;
use outlast_init::frame::{FromInit, ToInit, encode};
use outlast_protocol::{
    CallResult, Outcome,
    content::Block,
    id::{EventId, IncarnationId},
};
use outlast_sandbox::{Confined, Frozen, Layer, Pressure};
use serde_json::value::RawValue;
use tokio::{
    sync::{mpsc, watch},
    task::spawn_blocking,
};
use tokio_util::task::TaskTracker;

use super::{
    journal::{At, Journal},
    link::{self, Reader},
    memory,
    packages::Used,
    parts::Parts,
    room,
    strikes::Strikes,
    usage, words,
};
use crate::{
    CallError, Fence, Hand, HandLost, Limits, Promise, Recalled, error::ON_REQUEST, fence::Fences,
};

/// What a call came to, for all who wait for it.
type Outcomes = watch::Sender<Option<Result<CallResult, HandLost>>>;

/// A call that this hand knows.
#[derive(Debug)]
enum Call {
    /// It runs.
    Running(Outcomes),
    /// It is over, and its result waits for the disk.
    Syncing(Outcomes),
    /// It is over and its result is in the journal.
    Settled(At),
    /// It is over and the journal could not take its result.
    Kept(Box<CallResult>),
}

/// What changes.
#[derive(Debug)]
pub(super) struct State {
    calls: HashMap<EventId, Call>,
    fences: Fences,
    journal: Journal,
    /// Results that wait for the disk, each with where it is in the journal, if it is.
    unsynced: Vec<(EventId, CallResult, Option<At>)>,
    /// Whether a task syncs.
    is_syncing: bool,
    /// Whether the host's disk was nearly full since all was stored.
    pub(super) cramped: bool,
    /// Why the sandbox is gone.
    lost: Option<String>,
    /// Which limits struck, and for whom.
    strikes: Strikes,
    /// Calls that are being stopped because of a limit, and its words.
    stopped: HashMap<EventId, String>,
    /// What the next result says of a bound that was passed between two looks.
    pub(super) remark: Option<String>,
    /// Closed when the sandbox is gone.
    frames: Option<mpsc::UnboundedSender<Vec<u8>>>,
    /// The same of its way out: it holds the network inside.
    pub(super) outlet: Option<TcpListener>,
}

impl State {
    /// Has a call stopped.
    fn cancel(&self, call: EventId) {
        let id = call.to_string();
        if let (Ok(frame), Some(frames)) = (encode(&ToInit::Cancel { id }), &self.frames) {
            // A closed channel means that the call is about to be lost, which settles it.
            drop(frames.send(frame));
        }
    }
}

/// One sandbox.
#[derive(Debug)]
pub(super) struct NamespaceHand {
    incarnation: IncarnationId,
    limits: Limits,
    confined: Arc<Confined>,
    /// The layer below, which stays as long as this.
    _packages: Option<Used>,
    state: Mutex<State>,
    /// True when nothing inside runs any more.
    ended: watch::Sender<bool>,
    tasks: TaskTracker,
    this: Weak<Self>,
}

/// What `execute` found.
enum Asked {
    Known(Result<CallResult, HandLost>),
    Wait(watch::Receiver<Option<Result<CallResult, HandLost>>>),
}

impl NamespaceHand {
    /// Begins to serve a sandbox whose PID 1 has answered.
    pub(super) fn begin(parts: Parts, tasks: &TaskTracker) -> Arc<Self> {
        let (reader, writer) = parts.link.split();
        // As many frames wait here as there are calls in flight, each sent by somebody who waits.
        let (frames, outbox) = mpsc::unbounded_channel();
        let state = State {
            calls: HashMap::new(),
            fences: Fences::default(),
            journal: parts.journal,
            unsynced: Vec::new(),
            is_syncing: true,
            cramped: false,
            lost: None,
            strikes: Strikes::default(),
            stopped: HashMap::new(),
            remark: None,
            frames: Some(frames),
            outlet: parts.outlet,
        };
        let hand = Arc::new_cyclic(|this| Self {
            incarnation: parts.incarnation,
            limits: parts.limits,
            confined: Arc::new(parts.confined),
            _packages: parts.packages,
            state: Mutex::new(state),
            ended: watch::Sender::new(false),
            tasks: tasks.clone(),
            this: this.clone(),
        });
        tasks.spawn(link::write(writer, outbox));
        tasks.spawn(read(reader, Arc::downgrade(&hand)));
        // The journal itself, while the first call is on its way.
        let new = Arc::clone(&hand);
        tasks.spawn(async move { new.sync().await });
        if !hand.confined.is_counted() {
            tasks.spawn(memory::keep(Arc::downgrade(&hand)));
        }
        if hand.layer().is_some_and(|layer| layer.room().is_none()) {
            tasks.spawn(usage::keep(Arc::downgrade(&hand)));
        } else {
            tasks.spawn(room::watch(Arc::downgrade(&hand), hand.ended.subscribe()));
        }
        hand
    }

    /// Locks the state, never across an await.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the sandbox is gone.
    pub(super) fn is_lost(&self) -> bool {
        self.state().lost.is_some()
    }

    /// Stops everything inside, until the guard is dropped. Blocks.
    pub(super) fn freeze(&self) -> io::Result<Frozen> {
        self.confined.freeze()
    }

    /// Kills everything inside and waits until it is gone.
    pub(super) async fn kill(&self) {
        self.state()
            .lost
            .get_or_insert_with(|| ON_REQUEST.to_owned());
        self.confined.kill();
        self.gone().await;
    }

    /// Says what ended it, unless it lives or somebody wanted its end.
    pub(super) fn fate(&self) -> Option<String> {
        let lost = self.state().lost.clone();
        lost.filter(|reason| reason != ON_REQUEST)
    }

    /// Waits until nothing inside runs any more and others may have its files.
    pub(super) async fn gone(&self) {
        // The sender lives in `self`.
        drop(self.ended.subscribe().wait_for(|ended| *ended).await);
    }

    /// Says what became of a call.
    pub(super) fn recall(&self, call: EventId) -> Recalled {
        let state = self.state();
        match state.calls.get(&call) {
            None => Recalled::NotStarted,
            Some(Call::Running(_) | Call::Syncing(_)) => Recalled::Begun,
            Some(Call::Kept(result)) => Recalled::Settled((**result).clone()),
            Some(Call::Settled(at)) => state
                .journal
                .read(*at)
                .map_or(Recalled::Begun, Recalled::Settled),
        }
    }

    /// Returns its bounds.
    pub(super) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the sandbox.
    pub(super) fn confined(&self) -> Arc<Confined> {
        Arc::clone(&self.confined)
    }

    /// Returns its writable layer, while it lives.
    pub(super) fn layer(&self) -> Option<Layer> {
        self.confined.layer()
    }

    /// Returns the calls that run, and how many there ever were.
    pub(super) fn running(&self) -> (HashSet<EventId>, usize) {
        let state = self.state();
        let calls = state.calls.iter();
        let running = calls.filter(|(_, call)| matches!(call, Call::Running(_)));
        (running.map(|(id, _)| *id).collect(), state.calls.len())
    }

    /// Stops those of these calls that still run because of a limit; tells whether some did.
    pub(super) fn stop_calls(&self, calls: &HashSet<EventId>, words: &str) -> bool {
        let mut state = self.state();
        let mut stopped = false;
        for call in calls {
            if let Some(Call::Running(_)) = state.calls.get(call) {
                state.cancel(*call);
                state.stopped.insert(*call, words.to_owned());
                stopped = true;
            }
        }
        stopped
    }

    /// Ends the sandbox because of a limit.
    pub(super) fn end(&self, words: &str) {
        let reason = words::bare(words);
        self.state().lost.get_or_insert_with(|| reason.to_owned());
        self.confined.kill();
    }

    /// Makes the error of a call.
    fn lost(&self, reason: impl Into<String>, handed_over: bool) -> HandLost {
        HandLost {
            incarnation: self.incarnation,
            reason: reason.into(),
            handed_over,
        }
    }

    /// Hands a call over if it is new, and finds what to wait for.
    fn ask(&self, call: EventId, name: &str, input: &RawValue) -> Asked {
        let pressure = self.confined.pressure();
        let mut state = self.state();
        match state.calls.get(&call) {
            Some(Call::Running(outcome) | Call::Syncing(outcome)) => {
                return Asked::Wait(outcome.subscribe());
            }
            Some(Call::Kept(result)) => return Asked::Known(Ok((**result).clone())),
            Some(Call::Settled(at)) => {
                let lost = |error: io::Error| self.lost(format!("its journal: {error}"), true);
                return Asked::Known(state.journal.read(*at).map_err(lost));
            }
            None => {}
        }
        if let Some(reason) = &state.lost {
            return Asked::Known(Err(self.lost(reason, false)));
        }
        if let Err(error) = hand_over(&mut state, call, name, input) {
            let text = format!("{name}: could not be handed to the sandbox: {error}");
            return Asked::Known(Ok(CallResult::error(Outcome::NotStarted, text)));
        }
        let outcome = Outcomes::new(None);
        let wait = outcome.subscribe();
        state.calls.insert(call, Call::Running(outcome));
        state.strikes.begin(call, name, pressure, &self.limits);
        Asked::Wait(wait)
    }

    /// Settles a call, if it runs.
    fn settle(&self, call: EventId, mut result: CallResult) {
        let pressure = self.confined.pressure();
        let mut state = self.state();
        let before = state.strikes.end(call, pressure, &self.limits);
        self.tell(&mut result, before, pressure);
        if let Some(words) = state.stopped.remove(&call) {
            result.is_error = true;
            result.outcome = Outcome::Limit;
            words::blame(&mut result, words);
            state.remark = None;
        } else if result.outcome != Outcome::Interrupted {
            let remarks = [state.strikes.take(), state.remark.take()];
            result
                .content
                .extend(remarks.into_iter().flatten().map(Block::text));
        }
        let Some(Call::Running(outcome)) = state.calls.remove(&call) else {
            return;
        };
        self.note(&mut state, call, result, outcome);
    }

    /// Says in a result which limit struck while its call ran.
    fn tell(&self, result: &mut CallResult, before: Pressure, now: Pressure) {
        let struck = words::struck(before, now, &self.limits);
        if !result.is_error {
            // What was killed or refused need not have failed the whole, and matters all the same.
            result.content.extend(struck.map(Block::text));
            return;
        }
        let full = || words::full(self.layer()?.room()?, &self.limits);
        if let Some(words) = struck.or_else(full) {
            words::blame(result, words);
        } else if result.outcome == Outcome::Limit
            && let Some(words) = words::held_back(before, now, &self.limits)
        {
            words::blame(result, words);
        }
    }

    /// Writes a result to the journal and has it given out once it is on the disk.
    fn note(&self, state: &mut State, call: EventId, result: CallResult, outcome: Outcomes) {
        let at = match state.journal.settled(call, &result) {
            Ok(at) => Some(at),
            Err(error) => {
                tracing::warn!(%call, %error, "the result of call `{call}` is not in the journal");
                None
            }
        };
        state.unsynced.push((call, result, at));
        state.calls.insert(call, Call::Syncing(outcome));
        if !state.is_syncing
            && let Some(hand) = self.this.upgrade()
        {
            state.is_syncing = true;
            self.tasks.spawn(async move { hand.sync().await });
        }
    }

    /// Gives results out, each after a sync that began when it was written: what settles during
    /// one shares the next.
    async fn sync(&self) {
        loop {
            let (batch, unsynced) = {
                let mut state = self.state();
                if state.unsynced.is_empty() && !state.journal.is_new() {
                    state.is_syncing = false;
                    return;
                }
                let batch = std::mem::take(&mut state.unsynced);
                (batch, state.journal.unsynced())
            };
            let synced = spawn_blocking(move || unsynced.sync()).await;
            if let Err(error) = synced.map_err(io::Error::other).flatten() {
                let hand = self.incarnation;
                tracing::warn!(%hand, %error, "the journal of `{hand}` cannot be synced: {error}");
            }
            let mut state = self.state();
            for (call, result, at) in batch {
                let Some(Call::Syncing(outcome)) = state.calls.remove(&call) else {
                    continue;
                };
                let known = at.map_or_else(|| Call::Kept(Box::new(result.clone())), Call::Settled);
                state.calls.insert(call, known);
                outcome.send_replace(Some(Ok(result)));
            }
        }
    }

    /// Gives up: every running call is lost with the sandbox.
    fn give_up(&self, reason: String) {
        let mut state = self.state();
        let reason = state.lost.get_or_insert(reason).clone();
        state.frames = None;
        state.outlet = None;
        state.journal.release();
        for call in state.calls.values() {
            if let Call::Running(outcome) = call {
                outcome.send_replace(Some(Err(self.lost(&reason, true))));
            }
        }
        drop(state);
        self.ended.send_replace(true);
    }

    /// Stops a call; returns what to wait for, if it runs.
    fn stop(&self, call: EventId) -> Option<watch::Receiver<Option<Result<CallResult, HandLost>>>> {
        let mut state = self.state();
        match state.calls.get(&call) {
            Some(Call::Settled(_) | Call::Kept(_)) => None,
            Some(Call::Syncing(outcome)) => Some(outcome.subscribe()),
            Some(Call::Running(outcome)) => {
                let wait = outcome.subscribe();
                state.cancel(call);
                Some(wait)
            }
            None => {
                let text = "the call was interrupted before it began";
                let result = CallResult::error(Outcome::Interrupted, text);
                let outcome = Outcomes::new(None);
                let wait = outcome.subscribe();
                self.note(&mut state, call, result, outcome);
                Some(wait)
            }
        }
    }
}

/// Notes a call in the journal and sends it.
fn hand_over(state: &mut State, call: EventId, name: &str, input: &RawValue) -> io::Result<()> {
    let frame = encode(&ToInit::Call {
        id: call.to_string(),
        name: name.to_owned(),
        input: input.to_owned(),
    })?;
    state.journal.begun(call)?;
    let sent = state
        .frames
        .as_ref()
        .is_some_and(|frames| frames.send(frame).is_ok());
    if sent {
        Ok(())
    } else {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// Reads answers until PID 1 is gone, then takes care that everything is.
async fn read(mut reader: Reader, hand: Weak<NamespaceHand>) {
    let broken = loop {
        match reader.receive().await {
            Ok(Some(FromInit::Settled { id, answer })) => {
                let Some(hand) = hand.upgrade() else { return };
                let Some(call) = EventId::parse(&id) else {
                    continue;
                };
                let mut result = words::result(answer);
                let is_lost = hand.has_unstored().await;
                if is_lost {
                    result.is_error = true;
                    words::blame(&mut result, room::UNSTORED.to_owned());
                }
                hand.settle(call, result);
                if is_lost {
                    hand.end(room::UNSTORED);
                }
            }
            Ok(Some(FromInit::Struck { words })) => {
                let Some(hand) = hand.upgrade() else { return };
                hand.state().strikes.note(&words);
            }
            Ok(Some(FromInit::Ready { .. } | FromInit::Unfit { .. })) => {
                break Some("it broke the protocol".to_owned());
            }
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    // Without the hand, dropping it has ended the sandbox.
    let Some(hand) = hand.upgrade() else { return };
    let confined = Arc::clone(&hand.confined);
    let ended = spawn_blocking(move || {
        confined.kill();
        let ended = confined.wait();
        let pressure = confined.pressure();
        confined.clear();
        (ended, pressure)
    });
    let reason = match (broken, ended.await) {
        (Some(broken), _) => broken,
        (None, Ok((ended, pressure))) => {
            let words = hand.state().strikes.last(pressure, &hand.limits);
            words.map_or_else(
                || ended.to_string(),
                |words| format!("{ended}: {}", words::bare(&words)),
            )
        }
        (None, Err(_)) => "its first process is gone".to_owned(),
    };
    tracing::info!(incarnation = %hand.incarnation, "hand `{}` has ended: {reason}", hand.incarnation);
    hand.give_up(reason);
}

#[async_trait]
impl Hand for NamespaceHand {
    fn incarnation(&self) -> IncarnationId {
        self.incarnation
    }

    fn promise(&self) -> Promise {
        Promise::Journalled
    }

    async fn raise(&self, fence: Fence) -> Result<(), HandLost> {
        let mut state = self.state();
        if let Some(reason) = &state.lost {
            return Err(self.lost(reason, false));
        }
        state.fences.raise(fence);
        Ok(())
    }

    async fn execute(
        &self,
        fence: Fence,
        call: EventId,
        name: &str,
        input: &RawValue,
    ) -> Result<CallResult, CallError> {
        self.state().fences.admit(self.incarnation, fence)?;
        let mut wait = match self.ask(call, name, input) {
            Asked::Known(known) => return Ok(known?),
            Asked::Wait(wait) => wait,
        };
        let outcome = wait.wait_for(Option::is_some).await;
        let outcome = outcome.ok().and_then(|outcome| outcome.clone());
        Ok(outcome.unwrap_or_else(|| Err(self.lost("it was dropped", true)))?)
    }

    async fn cancel(&self, call: EventId) {
        if let Some(mut wait) = self.stop(call) {
            // An error means that the hand is gone, and with it the call.
            drop(wait.wait_for(Option::is_some).await);
        }
    }
}
