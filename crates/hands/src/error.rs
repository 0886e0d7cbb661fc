//! What can go wrong with a hand, apart from what a tool says.

use outlast_protocol::id::IncarnationId;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// A hand is gone; the call may have run if it had been handed over.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
#[error("hand `{incarnation}` is lost: {reason}")]
pub struct HandLost {
    /// The hand.
    pub incarnation: IncarnationId,
    /// What happened, in words for a person or a model.
    pub reason: String,
    /// Whether the call was handed over before, so that it may have run in part or whole.
    pub handed_over: bool,
}

/// A hand did not take a call.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
pub enum CallError {
    /// The hand is gone.
    #[error(transparent)]
    Lost(#[from] HandLost),
    /// Another brain has the thread.
    #[error("hand `{incarnation}` serves epoch {newest} of thread {thread} by now")]
    Stale {
        /// The hand.
        incarnation: IncarnationId,
        /// The thread.
        thread: u32,
        /// The newest epoch it knows of.
        newest: u64,
    },
}

/// What ended a hand that somebody wanted to end.
pub(crate) const ON_REQUEST: &str = "it was ended on request";

/// What makes hands does not answer, though it is there.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{who} has not answered for {} s", since.elapsed().as_secs())]
pub struct Silence {
    /// Who does not, in words.
    pub who: String,
    /// Since when.
    pub since: Instant,
}

/// A hand could not be made.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
pub enum ProvisionError {
    /// A step failed.
    #[error("hand `{incarnation}` could not be made: {step}: {reason}{}", hint(.mend.as_deref()))]
    Step {
        /// The hand.
        incarnation: IncarnationId,
        /// The step, in words.
        step: String,
        /// What the system said.
        reason: String,
        /// What would help, where that is known.
        mend: Option<String>,
    },
    /// It lived before and has ended: an incarnation has one life, its successor needs a new id.
    #[error(
        "hand `{incarnation}` has ended and is not made again; name it as predecessor of a new one"
    )]
    Ended {
        /// The hand.
        incarnation: IncarnationId,
    },
}

/// Puts the advice behind the message.
fn hint(mend: Option<&str>) -> String {
    mend.map(|mend| format!("; {mend}")).unwrap_or_default()
}

/// What a hand left could not be removed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
#[error("hand `{incarnation}` could not be removed: {reason}")]
pub struct ReapError {
    /// The hand.
    pub incarnation: IncarnationId,
    /// What the system said.
    pub reason: String,
}
