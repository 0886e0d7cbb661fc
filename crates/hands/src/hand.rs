//! The seam: what makes hands, and what a hand does.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use outlast_protocol::{
    CallResult,
    id::{EventId, IncarnationId},
};
use serde_json::value::RawValue;

use crate::{HandLost, ProvisionError, ReapError, Recipe};

/// What a hand can say about a call after a failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Promise {
    /// It keeps a journal: it knows which calls it had, and what they came to.
    Journalled,
    /// A call can be made again without harm.
    Idempotent,
    /// A call is made once, and never asked about again.
    Once,
}

/// What to do with the writable layer of a hand that ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Keep {
    /// Nothing stays.
    Nothing,
    /// The layer and the journal stay on this machine for a successor.
    Layer,
}

/// What is known of a call of an incarnation, living or not.
#[derive(Clone, Debug, PartialEq)]
pub enum Recalled {
    /// It came to this.
    Settled(CallResult),
    /// It was handed over and did not come to an end that anybody saw.
    Begun,
    /// The incarnation never had it.
    NotStarted,
    /// This node knows nothing of the incarnation.
    Unknown,
}

/// Makes hands, finds them, and ends them.
#[async_trait]
pub trait Provisioner: Debug + Send + Sync {
    /// Makes a hand from a recipe, or returns the one that incarnation already has.
    ///
    /// Any number may ask for the same incarnation at once; one hand is made. If the caller goes
    /// away the making goes on.
    ///
    /// # Errors
    ///
    /// Names the step that failed and what would mend it. An incarnation that has lived and ended
    /// is not made again.
    async fn provision(&self, recipe: &Recipe) -> Result<Arc<dyn Hand>, ProvisionError>;

    /// Returns the live hand of an incarnation, if this node has it.
    async fn find(&self, incarnation: IncarnationId) -> Option<Arc<dyn Hand>>;

    /// Says what became of a call, from the journal if the incarnation is dead.
    async fn recall(&self, incarnation: IncarnationId, call: EventId) -> Recalled;

    /// Ends an incarnation and removes what it left; idempotent. Calls in flight are lost.
    ///
    /// # Errors
    ///
    /// If something of it cannot be removed; it is dead all the same.
    async fn reap(&self, incarnation: IncarnationId, keep: Keep) -> Result<(), ReapError>;

    /// Lists incarnations that live or have left something on this node.
    async fn list(&self) -> Vec<IncarnationId>;
}

/// Executes calls.
#[async_trait]
pub trait Hand: Debug + Send + Sync {
    /// Returns whose life this is.
    fn incarnation(&self) -> IncarnationId;

    /// Returns what it can say about a call after a failure.
    fn promise(&self) -> Promise;

    /// Has a tool run, at most once per call id.
    ///
    /// Asking again joins the running call or returns its result, even from a hand that is lost
    /// since. If the caller goes away the call goes on. A wrong name or input is a result that the
    /// model can read, no error.
    ///
    /// # Errors
    ///
    /// If the hand is gone and this call has no result.
    async fn execute(
        &self,
        call: EventId,
        name: &str,
        input: &RawValue,
    ) -> Result<CallResult, HandLost>;

    /// Settles the call once, as done or as interrupted, and returns when it is settled.
    ///
    /// A call that was never asked for is settled as interrupted: it will not run.
    async fn cancel(&self, call: EventId);
}
