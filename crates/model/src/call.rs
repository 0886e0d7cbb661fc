//! The seam itself: who asks, what is asked, and the stream that answers.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures::Stream;
use serde_json::value::RawValue;

use outlast_protocol::id::{EventId, SessionId};

use crate::{Error, Event};

/// The answer to a call, event by event.
///
/// It ends after `message_stop` or after its first error, whichever comes first; a stream that
/// ends in another way ends with a retryable error. Dropping it cancels the request.
pub type Events = Pin<Box<dyn Stream<Item = Result<Event, Error>> + Send>>;

/// Names the brain on whose behalf a request is made.
///
/// A gateway refuses a call whose epoch is no longer the one that holds the lease. The models in
/// this crate do not look at it, but for the scripted model's counters of failures.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct BrainToken {
    /// The session.
    pub session: SessionId,
    /// The thread within it; 0 is the primary.
    pub thread: u32,
    /// The lease under which the brain runs.
    pub epoch: u64,
}

/// One Messages request.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who asks.
    pub brain: BrainToken,
    /// The id of the span start event that announced the request.
    pub request: EventId,
    /// The model id, equal to the one in the body; for routing and for messages.
    pub model: String,
    /// The whole request body with `"stream": true` in it, sent byte for byte.
    pub body: Arc<RawValue>,
}

/// Answers Messages requests.
///
/// Implementations make one attempt per call and never retry: the caller knows how long the turn
/// may wait and has to record each attempt. Replacing a kept connection that turns out to be closed
/// before the request was read is no retry.
#[async_trait]
pub trait Model: fmt::Debug + Send + Sync {
    /// Sends one Messages request and streams the answer.
    ///
    /// Returns once the answer has begun or was refused. Dropping the future or the stream ends
    /// the request; whether the model's provider still counts its tokens is not promised.
    ///
    /// # Errors
    /// Everything that happens before the first event. Later failures are items of the stream.
    async fn stream(&self, call: Call) -> Result<Events, Error>;
}
