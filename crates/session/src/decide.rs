//! The desk where a proposal becomes drafts: each is folded at once, so that what follows from it
//! can be seen.

use outlast_protocol::{
    Micros, Problem,
    id::{EventId, ProcessId},
};
use serde::Serialize;

use crate::{Draft, DraftBody, Entry, FoldError, Json, Kind, Origin, State, fold, json};

/// Draws ids for events that `admit` itself derives.
pub trait Ids {
    /// Returns a new event id.
    fn event(&mut self) -> EventId;
}

/// Bounds that the operator sets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rules {
    /// Responses with calls in one turn.
    pub rounds: u32,
    /// Responses in a row whose only call was cut off.
    pub cut: u32,
    /// Inputs that may wait on one thread.
    pub queue: usize,
    /// Claims without progress after which a thread is only worked on alone; as many again park it.
    pub attempts: u32,
    /// List price of one hour of running, in nano-dollars.
    pub hour_price: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            rounds: 500,
            cut: 5,
            queue: 1_000,
            attempts: 5,
            hour_price: 0,
        }
    }
}

/// What `admit` needs beside state and proposal.
pub struct Context<'a> {
    /// The time of day.
    pub now: Micros,
    /// Where ids come from.
    pub ids: &'a mut dyn Ids,
    /// The operator's bounds.
    pub rules: &'a Rules,
    /// Whether a model takes `system.message`.
    pub takes_system: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("now", &self.now)
            .field("rules", self.rules)
            .finish()
    }
}

/// What came of a proposal that was not refused.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What to append, in order; may be nothing.
    pub drafts: Vec<Draft>,
    /// Who writes it.
    pub origin: Origin,
    /// When.
    pub at: Micros,
    /// The state afterwards.
    pub state: State,
    /// What the writer is told.
    pub answer: Answer,
}

/// What a writer is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// It stands in the log.
    Appended,
    /// It stood there before: these positions.
    Repeated {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// An input waits that can be taken in, or a client answered a call; the turn is not over.
    InputArrived,
    /// An interrupt waits; take it in first.
    Interrupted,
    /// Another outcome was first.
    AlreadySettled,
    /// The turn reached the limit of tool rounds and was ended.
    LimitReached,
    /// The configuration changed meanwhile; look again.
    Changed,
    /// The thread came to nothing too often: whoever claims it has to work on it alone.
    Suspect,
    /// It came to nothing alone too, and no brain gets it until somebody asks for that.
    Parked,
    /// There was nothing to do.
    Nothing,
}

/// Why a proposal is refused. Nothing was appended.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The client asked for what the state does not allow.
    #[error(transparent)]
    Client(#[from] Problem),
    /// The writer's lease is over.
    #[error("epoch {epoch} no longer holds the lease, {current} does")]
    Stale {
        /// What the writer has.
        epoch: u64,
        /// What the thread has.
        current: u64,
    },
    /// An append before this one is missing.
    #[error("seq {seq} does not follow {last}")]
    Gap {
        /// What the writer sent.
        seq: u64,
        /// What was appended last.
        last: u64,
    },
    /// Somebody else holds the lease.
    #[error("process `{holder}` holds the lease")]
    Held {
        /// Who.
        holder: ProcessId,
    },
    /// A brain, kernel or gateway proposed what cannot follow.
    #[error("{0}")]
    Illegal(&'static str),
    /// The log cannot be continued by this version.
    #[error(transparent)]
    Fold(#[from] FoldError),
}

/// A proposal on its way: drafts so far, and the state they fold to.
#[derive(Debug)]
pub(crate) struct Desk<'a, 'c> {
    pub(crate) state: State,
    pub(crate) context: &'a mut Context<'c>,
    origin: Origin,
    at: Micros,
    drafts: Vec<Draft>,
}

impl<'a, 'c> Desk<'a, 'c> {
    /// Opens the desk on a state.
    pub(crate) fn new(state: State, origin: Origin, context: &'a mut Context<'c>) -> Self {
        let at = context.now.max(state.at);
        Self {
            state,
            context,
            origin,
            at,
            drafts: Vec::new(),
        }
    }

    /// Returns the time of this append.
    pub(crate) fn at(&self) -> Micros {
        self.at
    }

    /// Tells whether a brain is wanted now by a thread that waits for this.
    pub(crate) fn is_due(&self, waker: &crate::Waker) -> bool {
        waker.is_due(self.context.now, self.state.at)
    }

    /// Dates this append not before a moment that it tells of.
    pub(crate) fn not_before(&mut self, moment: Micros) {
        self.at = self.at.max(moment);
    }

    /// Drafts an event under a new id, which it returns.
    pub(crate) fn event(
        &mut self,
        thread: u32,
        kind: Kind,
        body: &impl Serialize,
    ) -> Result<EventId, Refusal> {
        let id = self.context.ids.event();
        self.put(thread, kind, Some(id), json(body))?;
        Ok(id)
    }

    /// Drafts a private record.
    pub(crate) fn note(
        &mut self,
        thread: u32,
        kind: Kind,
        body: &impl Serialize,
    ) -> Result<(), Refusal> {
        self.put(thread, kind, None, json(body))
    }

    /// Drafts a record with a body that is serialized already.
    pub(crate) fn put(
        &mut self,
        thread: u32,
        kind: Kind,
        event: Option<EventId>,
        body: Json,
    ) -> Result<(), Refusal> {
        self.fold(thread, kind, event, Some(body.get()))?;
        self.drafts.push(Draft {
            thread,
            kind,
            event,
            body: DraftBody::Json(body),
        });
        Ok(())
    }

    /// Drafts a record that shares the body of the one at `position`.
    pub(crate) fn copy(
        &mut self,
        thread: u32,
        kind: Kind,
        event: EventId,
        position: u64,
    ) -> Result<(), Refusal> {
        self.fold(thread, kind, Some(event), None)?;
        let body = DraftBody::Copy(position);
        self.drafts.push(Draft {
            thread,
            kind,
            event: Some(event),
            body,
        });
        Ok(())
    }

    fn fold(
        &mut self,
        thread: u32,
        kind: Kind,
        event: Option<EventId>,
        body: Option<&str>,
    ) -> Result<(), FoldError> {
        let position = self.state.tail + 1;
        let entry = Entry {
            position,
            thread,
            at: self.at,
            origin: &self.origin,
            kind,
            event,
            body,
        };
        fold(&mut self.state, &entry)
    }

    /// Closes the desk.
    pub(crate) fn done(self, answer: Answer) -> Decision {
        let Self {
            state,
            origin,
            at,
            drafts,
            ..
        } = self;
        Decision {
            drafts,
            origin,
            at,
            state,
            answer,
        }
    }
}
