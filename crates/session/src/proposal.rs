//! What writers propose. None of it is in the log until [`admit`](crate::admit()) says so.

use std::sync::Arc;

use outlast_protocol::{
    Micros, Outcome,
    deadlines::{Deadlines, UpdateDeadlines},
    id::{
        ApiKeyId, CredentialId, EventId, IncarnationId, ProcessId, ResourceId, SessionId, ThreadId,
    },
};
use serde_json::value::RawValue;

use crate::{
    Json, Kind,
    body::{Checkpointed, Config, Mounted, Pinned, RequestEnded},
};

/// A wish to append to a session's log.
#[derive(Clone, Debug)]
pub enum Proposal {
    /// Make the session.
    Create(Box<Create>),
    /// A client's events, all or none.
    Send(Send),
    /// Replace the configuration.
    Update(Update),
    /// Mount a file.
    Mount {
        /// What and where.
        resource: Mounted,
        /// Who asks.
        by: ApiKeyId,
    },
    /// Take a mounted file away.
    Unmount {
        /// Which.
        resource: ResourceId,
        /// Who asks.
        by: ApiKeyId,
    },
    /// Note that a repository has another token.
    Rotate {
        /// Which.
        resource: ResourceId,
        /// Who asks.
        by: ApiKeyId,
    },
    /// Change how long the session may wait and last.
    SetDeadlines {
        /// What changes.
        change: UpdateDeadlines,
        /// Who asks.
        by: ApiKeyId,
    },
    /// Do what follows from a deadline that has run out, if one has.
    Expire,
    /// Erase bodies under the chain.
    Erase(Erase),
    /// End the session, keep its log.
    Archive(ApiKeyId),
    /// End the session, drop its log.
    Delete(ApiKeyId),
    /// Take the lease of a thread.
    Claim {
        /// The thread.
        thread: u32,
        /// Who asks.
        claim: Claim,
    },
    /// Take the lease of a thread that came to nothing often, and work on no other such one.
    ClaimAlone {
        /// The thread.
        thread: u32,
        /// Who asks.
        claim: Claim,
    },
    /// Take the lease of a thread that is parked, to go on with what was given up.
    Revive {
        /// The thread.
        thread: u32,
        /// Who asks.
        claim: Claim,
    },
    /// What a brain says under its lease, in order.
    Brain {
        /// The thread.
        thread: u32,
        /// Its right to speak.
        fence: Fence,
        /// What it says.
        step: Step,
    },
    /// What kernel or gateway write for a brain; known by its key, not by an order.
    Keyed {
        /// The thread.
        thread: u32,
        /// The lease of the brain that it is for.
        epoch: u64,
        /// The request or call.
        key: EventId,
        /// What happened.
        fact: Fact,
    },
    /// Name the newest checkpoint of the hand's workspace. Taken while no brain works too, so no
    /// lease is asked for.
    Checkpoint(Checkpointed),
}

impl Proposal {
    /// Returns the process for which it would take a lease.
    pub fn claimant(&self) -> Option<ProcessId> {
        let claim = match self {
            Self::Claim { claim, .. }
            | Self::ClaimAlone { claim, .. }
            | Self::Revive { claim, .. } => Some(*claim),
            Self::Create(new) => new.claim,
            Self::Send(send) => send.claim,
            Self::Update(_)
            | Self::Mount { .. }
            | Self::Unmount { .. }
            | Self::Rotate { .. }
            | Self::SetDeadlines { .. }
            | Self::Expire
            | Self::Erase(_)
            | Self::Archive(_)
            | Self::Delete(_)
            | Self::Brain { .. }
            | Self::Keyed { .. }
            | Self::Checkpoint(_) => None,
        };
        claim.map(|claim| claim.process)
    }
}

/// A new session.
#[derive(Clone, Debug)]
pub struct Create {
    /// Its id.
    pub id: SessionId,
    /// The id of its primary thread.
    pub thread: ThreadId,
    /// What it runs with.
    pub config: Arc<Config>,
    /// How long it may wait and last.
    pub deadlines: Deadlines,
    /// The first inputs.
    pub inputs: Vec<Input>,
    /// Who makes it.
    pub by: ApiKeyId,
    /// Who would start on it at once.
    pub claim: Option<Claim>,
}

/// Events of a client.
#[derive(Clone, Debug)]
pub struct Send {
    /// The events in order.
    pub inputs: Vec<Input>,
    /// Who sends them.
    pub by: ApiKeyId,
    /// Who would start on them at once.
    pub claim: Option<Claim>,
}

/// One event of a client, valid in itself.
#[derive(Clone, Debug)]
pub struct Input {
    /// What it does.
    pub act: Act,
    /// Its body as it will be stored.
    pub body: Json,
}

/// What a client's event does.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Speaks to the agent.
    Message,
    /// Adds an operator's turn behind the event before it.
    System,
    /// Stops a thread, or all.
    Interrupt {
        /// The thread; absent for all.
        thread: Option<ThreadId>,
    },
    /// Allows or denies a call.
    Confirm {
        /// The call.
        call: EventId,
        /// Denial, with its message.
        deny: Option<Option<String>>,
    },
    /// Answers a custom call.
    Result {
        /// The call.
        call: EventId,
    },
}

/// A changed configuration.
#[derive(Clone, Debug)]
pub struct Update {
    /// The configuration that the change was made from.
    pub from: Arc<Config>,
    /// The new one.
    pub config: Arc<Config>,
    /// The parts that changed, as `session.updated` tells them.
    pub event: Json,
    /// Whether the agent changed, which only an idle session takes.
    pub agent: bool,
    /// Who changes it.
    pub by: ApiKeyId,
}

/// Bodies to be erased.
#[derive(Clone, Debug)]
pub struct Erase {
    /// Which, in order, each once; the store takes them away in the same step.
    pub erasures: Vec<Erasure>,
    /// Why.
    pub because: String,
    /// Who asks; absent if it is the operator, without a server.
    pub by: Option<ApiKeyId>,
}

/// One body to be erased.
#[derive(Clone, Debug)]
pub struct Erasure {
    /// The record's position.
    pub position: u64,
    /// Its kind.
    pub kind: Kind,
    /// The event that was named: its own, or one that it holds the words of.
    pub event: EventId,
    /// What stays in its place.
    pub remains: Json,
}

/// Who takes a lease.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Claim {
    /// The process that the brain runs in.
    pub process: ProcessId,
    /// A holder that was declared dead; oneself, if no brain of one's own knows of the lease.
    pub dead: Option<ProcessId>,
}

/// A brain's right to speak, and the order of what it says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fence {
    /// The lease.
    pub epoch: u64,
    /// The place of this append among those under the lease, dense from 1.
    pub seq: u64,
    /// The last seq whose outcome the brain knows: those up to it that appended nothing are no gap.
    pub acked: u64,
}

/// What a brain says.
#[derive(Clone, Debug)]
pub enum Step {
    /// Takes in what waits, up to and including the arrival at `last`.
    ///
    /// The bound is what the brain has read: what arrives meanwhile waits for the next turn, so
    /// that the log never shows a message before a response whose request did not hold it.
    TakeIn {
        /// The position of the last arrival to take in.
        last: u64,
    },
    /// Stores a response of the model.
    Respond(Box<Respond>),
    /// Ends the turn, or waits for the client.
    EndTurn(Stop),
    /// Reports a failure of the model.
    Fail(Failure),
    /// Stops for the interrupt that waits.
    Interrupt,
    /// Gives the lease back with the work undone.
    Release,
    /// Gives it back because of a fault of the brain's, which counts against the turn.
    Break,
    /// Records what the session runs with.
    Pin(Pinned),
    /// Records system prompt and tools as requests will have them.
    Prefix(Json),
    /// Keeps a note of the harness.
    Note(Json),
}

/// A response of the model.
#[derive(Clone, Debug)]
pub struct Respond {
    /// The request it answers.
    pub request: EventId,
    /// The exact content blocks.
    pub blocks: Vec<Box<RawValue>>,
    /// Why the model stopped, in its own word.
    pub stop: String,
    /// More about the stop.
    pub details: Option<Box<RawValue>>,
    /// What the turn stands at if there are no calls.
    pub after: crate::After,
    /// The events, in the order of the blocks.
    pub events: Vec<Said>,
}

/// An event that a response becomes.
#[derive(Clone, Debug)]
pub enum Said {
    /// The model thought.
    Thinking(EventId),
    /// The model spoke: id and body of `agent.message`.
    Message(EventId, Json),
    /// The model calls a tool.
    Call {
        /// The event's id.
        id: EventId,
        /// The model's id.
        tool_use: String,
        /// The tool.
        name: String,
        /// Its input.
        input: Box<RawValue>,
        /// Whether the input was cut off.
        cut: bool,
    },
}

/// How a turn ends.
#[derive(Clone, Debug)]
pub enum Stop {
    /// Naturally, or because a client has to answer.
    EndTurn,
    /// The model refused; the details as the wire has them.
    Refusal(Json),
}

/// A failure of the model.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The body of `session.error`, complete.
    pub error: Json,
    /// What follows.
    pub then: Then,
}

/// What follows a failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Then {
    /// The same again at this moment.
    Retry(Micros),
    /// The turn is over; the session can go on.
    Exhausted,
    /// The session is over.
    Terminal,
}

/// What kernel or gateway report.
#[derive(Clone, Debug)]
pub enum Fact {
    /// A model request is about to leave; the key is its id.
    RequestStarted,
    /// It is over.
    RequestEnded(RequestEnded),
    /// A call is about to be handed over; the key is its id.
    Intended(IncarnationId),
    /// It is over: id and body of its `agent.tool_result`.
    Settled(Outcome, EventId, Json),
    /// A hand is about to be made.
    HandWanted(crate::body::HandWanted),
    /// A hand is gone.
    HandLost(crate::body::HandLost),
    /// A repository was tried in a hand; the key is the id of the `session.error`, whose body comes
    /// along where it is not there.
    Cloned(crate::body::Cloned, Option<Json>),
    /// All credentials that name a host which the environment does not allow, each with id and body of
    /// the `session.error` that tells of it, where that is new.
    Unreachable(Vec<(CredentialId, EventId, Json)>),
}

impl Act {
    /// Returns the event type.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Message => Kind::UserMessage,
            Self::System => Kind::SystemMessage,
            Self::Interrupt { .. } => Kind::UserInterrupt,
            Self::Confirm { .. } => Kind::UserToolConfirmation,
            Self::Result { .. } => Kind::UserCustomToolResult,
        }
    }
}
