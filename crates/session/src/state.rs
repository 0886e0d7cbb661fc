//! The state of a session: always the fold of its log.

use std::{collections::VecDeque, sync::Arc, time::Duration};

pub use outlast_protocol::session::Status;
use outlast_protocol::{
    Micros, Outcome,
    deadlines::Deadlines,
    id::{CredentialId, EventId, IncarnationId, ProcessId, SessionId, ThreadId},
};
use serde::{Deserialize, Serialize};

use crate::{
    Kind,
    body::{Checkpointed, Cloned, Config, Loss, Tokens},
};

/// The shape of a stored [`State`]; another number is folded again from the log.
pub const STATE_VERSION: u16 = 11;

/// Appends of one lease whose outcome can be asked for again.
pub const RECENT: usize = 8;

/// Everything about a session that decides what may come next.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct State {
    /// The session.
    pub id: SessionId,
    /// Position of the last record.
    pub tail: u64,
    /// Time of the first record.
    pub created_at: Micros,
    /// Time of the last record.
    pub at: Micros,
    /// What the session runs with; stored apart, because it is large and rarely changes.
    #[serde(skip)]
    pub config: Option<Arc<Config>>,
    /// The status last told to clients.
    pub status: Status,
    /// Threads by number; the primary is first.
    pub threads: Vec<Thread>,
    /// The default hand, once wanted.
    pub hand: Option<Hand>,
    /// Lives before the default hand's that may have left something.
    pub past_hands: Vec<IncarnationId>,
    /// The newest checkpoints of its workspace, the newest first.
    pub checkpoints: Vec<Checkpoint>,
    /// The newest try to clone each repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cloned: Vec<Cloned>,
    /// The credentials of which clients were told that they name a host which the environment does not
    /// allow, and that still do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreachable: Vec<CredentialId>,
    /// What all threads used.
    pub usage: Usage,
    /// Time spent running.
    pub active: Active,
    /// How long it may wait and last.
    pub deadlines: Deadlines,
    /// Since when it shows itself as idle.
    pub idle_since: Option<Micros>,
    /// When it was archived.
    pub archived_at: Option<Micros>,
    /// When it ended.
    pub terminated_at: Option<Micros>,
    /// Whether it is deleted.
    pub deleted: bool,
}

/// One line of work of a session.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Thread {
    /// Its public id.
    pub id: ThreadId,
    /// The status last told to clients.
    pub status: Status,
    /// The fence: appends of an older epoch are refused.
    pub epoch: u64,
    /// Who works on it.
    pub lease: Option<Lease>,
    /// The lease that was given back last, until the next claim: its appends may be repeated.
    pub past: Option<Lease>,
    /// Claims since the last progress, but for those whose lease was given back in good order.
    pub attempts: u32,
    /// What parked it, until a response is stored or a call settled.
    pub parked: Option<Parked>,
    /// Inputs that wait, in order of arrival.
    pub queue: VecDeque<Queued>,
    /// Interrupts that wait; they go first.
    pub interrupts: VecDeque<Queued>,
    /// The turn, from the first input taken in to its end.
    pub turn: Option<Turn>,
    /// The model request whose end is not told yet.
    pub request: Option<Request>,
    /// The newest model request, open or not: its start may be repeated.
    pub newest_request: Option<EventId>,
    /// The newest requests whose ends were told before their usage was known.
    pub uncounted: VecDeque<EventId>,
    /// The calls of the last response, until the next request.
    pub calls: Vec<Call>,
    /// When a client was told that it has to answer, until the thread works again.
    pub asked_since: Option<Micros>,
    /// The newest `x.prefix`.
    pub prefix: Option<u64>,
    /// The newest `x.pinned`.
    pub pinned: Option<u64>,
    /// What this thread used.
    pub usage: Usage,
    /// Time spent running.
    pub active: Active,
}

/// A brain's right to append.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Lease {
    /// The process that the brain runs in.
    pub process: ProcessId,
    /// The last seq that appended something.
    pub seq: u64,
    /// The newest appends as (seq, first position, last position).
    pub recent: VecDeque<(u64, u64, u64)>,
}

/// Why nobody works on a thread.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Parked {
    /// Since when.
    pub at: Micros,
    /// Claims that came to nothing.
    pub attempts: u32,
    /// What the turn stood at.
    pub after: After,
}

/// An input that arrived and is not taken in.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Queued {
    /// The arrival's position.
    pub position: u64,
    /// The event.
    pub event: EventId,
    /// What it will be in its place, as stored text.
    #[serde(with = "kind_text")]
    pub kind: Kind,
}

/// Work on inputs that were taken in.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Turn {
    /// Where its first input was placed.
    pub since: u64,
    /// Model responses with calls since the last input.
    pub rounds: u32,
    /// Responses in a row whose only call was cut off.
    pub cut: u32,
    /// Failures since the last response.
    pub retries: u32,
    /// What the next step follows from.
    pub after: After,
    /// When the retry is due, while one is set.
    pub retry_at: Option<Micros>,
}

/// What a turn stands at.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// An input: the model is next.
    Input,
    /// A response that paused: the model is next.
    Pause,
    /// A response with calls: these are next, then the model.
    Calls,
    /// A response without calls: the turn is over.
    Answer,
    /// A refusal of the model: the turn is over.
    Refusal,
    /// A response that stopped at the context window: the turn is over.
    Overflow,
}

/// A model request that was started.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Request {
    /// The event id of its start.
    pub id: EventId,
    /// What it used, once its end is known.
    pub ended: Option<Ended>,
    /// Whether its response is stored.
    pub answered: bool,
}

/// The gateway's word on a request.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Ended {
    /// What it used.
    pub tokens: Tokens,
    /// Whether it failed.
    pub failed: bool,
    /// Whether it ran in fast mode; unknown is `None`.
    pub fast: Option<bool>,
}

/// A tool call of the last response.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Call {
    /// The tool-use event.
    pub id: EventId,
    /// Its position.
    pub position: u64,
    /// The tool.
    pub name: String,
    /// Who answers it.
    pub route: Route,
    /// Where it stands.
    pub phase: Phase,
    /// A result that waits for those of earlier calls: (position, event).
    pub held: Option<(u64, EventId)>,
}

/// Who answers a call.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// The session's hand.
    Hand,
    /// The client.
    Client,
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waits for a client: its result, or its leave.
    Asked,
    /// May run.
    Allowed,
    /// Was handed to this hand.
    Intended(IncarnationId),
    /// Is over.
    Settled(Outcome),
}

/// The session's default hand.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Hand {
    /// The newest life.
    pub incarnation: IncarnationId,
    /// The life before, whose workspace it takes over when it begins.
    pub predecessor: Option<IncarnationId>,
    /// Whether that life is over.
    pub lost: bool,
    /// Whether a call was about to be handed to it, which is after it began.
    pub begun: bool,
    /// What of the workspace it came without, until the model was told.
    pub loss: Option<Loss>,
    /// The newest checkpoint that it could not begin with because it cannot be read, as long.
    pub unreadable: Option<Micros>,
    /// Whether a call ran in it, so that its shell may hold what the next life comes without.
    pub used: bool,
    /// Whether a life before it was used and ended, until the model was told.
    pub fresh: bool,
}

/// A checkpoint that the log names.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Checkpoint {
    /// What the log says of it.
    pub taken: Checkpointed,
    /// Whether a hand that was to begin with it found that it cannot be read.
    pub unreadable: bool,
}

/// Sums over model requests.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Usage {
    /// Tokens and searches.
    pub tokens: Tokens,
    /// List cost in nano-dollars.
    pub cost: u64,
    /// Whether a request had no price, so that the cost is not known.
    pub unpriced: bool,
}

/// Time spent running, as a stopwatch.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Active {
    /// When the present run began.
    pub since: Option<Micros>,
    /// Microseconds of the runs before.
    pub total: u64,
    /// When the first run began.
    pub first: Option<Micros>,
}

impl Active {
    /// Starts the watch, if it stands.
    pub(crate) fn start(&mut self, at: Micros) {
        self.first.get_or_insert(at);
        self.since.get_or_insert(at);
    }

    /// Stops the watch, if it runs.
    pub(crate) fn stop(&mut self, at: Micros) {
        if let Some(since) = self.since.take() {
            self.total += u64::try_from(at.since(since).as_micros()).unwrap_or(u64::MAX);
        }
    }

    /// Returns the time up to `now`.
    pub fn until(&self, now: Micros) -> Duration {
        let run = self.since.map_or(Duration::ZERO, |since| now.since(since));
        Duration::from_micros(self.total) + run
    }
}

impl Usage {
    /// Adds one request.
    pub(crate) fn add(&mut self, tokens: &Tokens, cost: Option<u64>) {
        let sum = &mut self.tokens;
        let pairs = [
            (&mut sum.input, tokens.input),
            (&mut sum.output, tokens.output),
            (&mut sum.cache_read, tokens.cache_read),
            (&mut sum.cache_5m, tokens.cache_5m),
            (&mut sum.cache_1h, tokens.cache_1h),
            (&mut sum.searches, tokens.searches),
            (&mut self.cost, cost.unwrap_or(0)),
        ];
        for (sum, part) in pairs {
            *sum = sum.saturating_add(part);
        }
        self.unpriced |= cost.is_none();
    }
}

impl Thread {
    /// Notes that work on it comes to something.
    pub(crate) fn progress(&mut self) {
        self.attempts = 0;
        self.parked = None;
    }

    /// Makes a thread that nothing happened on.
    pub fn new(id: ThreadId) -> Self {
        Self {
            id,
            status: Status::Idle,
            epoch: 0,
            lease: None,
            past: None,
            attempts: 0,
            parked: None,
            queue: VecDeque::new(),
            interrupts: VecDeque::new(),
            turn: None,
            request: None,
            newest_request: None,
            uncounted: VecDeque::new(),
            calls: Vec::new(),
            asked_since: None,
            prefix: None,
            pinned: None,
            usage: Usage::default(),
            active: Active::default(),
        }
    }

    /// Tells whether the thread shows itself as doing nothing.
    pub fn is_at_rest(&self) -> bool {
        match self.status {
            Status::Idle | Status::Terminated => true,
            Status::Running | Status::Rescheduling => false,
        }
    }

    /// Returns the calls that a client has to answer.
    pub fn asked(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.phase == Phase::Asked)
    }

    /// Returns the calls that have a hand to run them and no outcome.
    pub fn runnable(&self) -> impl Iterator<Item = &Call> {
        self.calls
            .iter()
            .filter(|call| matches!(call.phase, Phase::Allowed | Phase::Intended(_)))
    }

    /// Returns the call of that tool-use event.
    pub fn call(&self, id: EventId) -> Option<&Call> {
        self.calls.iter().find(|call| call.id == id)
    }

    /// Tells whether a client was told that the thread waits for its answers, and still owes some.
    ///
    /// Calls that it allowed meanwhile wait with it. A thread whose calls wait for a client who was
    /// not told yet has work: a brain has to say so.
    pub fn is_blocked(&self) -> bool {
        self.status == Status::Idle && self.asked().next().is_some()
    }

    /// Tells whether an input waits that a brain could take in now.
    pub fn has_input(&self) -> bool {
        !self.interrupts.is_empty() || (!self.queue.is_empty() && self.asked().next().is_none())
    }

    /// Tells whether a brain without a lease would find something to do, at once or at a time.
    pub fn has_work(&self) -> bool {
        let turn = self.turn.is_some() && !self.is_blocked();
        self.status != Status::Terminated && (turn || self.has_input())
    }
}

impl State {
    /// Returns every life of a hand that may be asked for: none once the session is over.
    pub fn named_hands(&self) -> Vec<IncarnationId> {
        if self.deleted || self.archived_at.is_some() {
            return Vec::new();
        }
        let newest = self.hand.map(|hand| hand.incarnation);
        self.past_hands.iter().copied().chain(newest).collect()
    }

    /// Returns past lives whose journals nobody will ask: no open call was handed to them.
    pub fn dispensable_hands(&self) -> Vec<IncarnationId> {
        let asked = |past: IncarnationId| {
            let mut calls = self.threads.iter().flat_map(|thread| &thread.calls);
            calls.any(|call| call.phase == Phase::Intended(past))
        };
        let past = self.past_hands.iter().copied();
        past.filter(|past| !asked(*past)).collect()
    }

    /// Returns the newest checkpoint that is not known to be unreadable.
    pub fn checkpoint(&self) -> Option<&Checkpointed> {
        let mut good = self.checkpoints.iter().filter(|known| !known.unreadable);
        good.next().map(|known| &known.taken)
    }

    /// Returns the moment of the newest checkpoint that is known to be unreadable.
    pub fn unreadable(&self) -> Option<Micros> {
        let mut bad = self.checkpoints.iter().filter(|known| known.unreadable);
        bad.next().map(|known| known.taken.at)
    }

    /// Makes the state of a session without a record.
    pub fn blank(id: SessionId) -> Self {
        Self {
            id,
            tail: 0,
            created_at: Micros::default(),
            at: Micros::default(),
            config: None,
            status: Status::Idle,
            threads: Vec::new(),
            hand: None,
            past_hands: Vec::new(),
            checkpoints: Vec::new(),
            cloned: Vec::new(),
            unreachable: Vec::new(),
            usage: Usage::default(),
            active: Active::default(),
            deadlines: Deadlines::default(),
            idle_since: None,
            archived_at: None,
            terminated_at: None,
            deleted: false,
        }
    }

    /// Returns the thread of that number.
    pub fn thread(&self, number: u32) -> Option<&Thread> {
        self.threads.get(usize::try_from(number).ok()?)
    }

    /// Returns the thread of that number for change.
    pub(crate) fn thread_mut(&mut self, number: u32) -> Option<&mut Thread> {
        self.threads.get_mut(usize::try_from(number).ok()?)
    }

    /// Returns the number and thread of that id.
    pub fn find(&self, id: ThreadId) -> Option<(u32, &Thread)> {
        (0_u32..)
            .zip(&self.threads)
            .find(|(_, thread)| thread.id == id)
    }

    /// Returns the status a client is shown: accepted work counts as running.
    pub fn shown(&self) -> Status {
        let accepted = self.threads.iter().any(Thread::has_work);
        if self.status == Status::Idle && accepted {
            Status::Running
        } else {
            self.status
        }
    }
}

/// Kinds as their stored text.
mod kind_text {
    use super::Kind;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(kind.text())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        Kind::parse(&text).map_err(D::Error::custom)
    }
}
