//! `session.thread_status_*`: one thread runs, waits, retries or is over.

use serde::{Deserialize, Serialize};

use super::{StopDetails, StopReason};
use crate::id::ThreadId;

/// Declares the bodies that only name the thread.
macro_rules! named {
    ($($name:ident, $word:literal;)*) => {
        $(
            #[doc = concat!("Body of `", $word, "`.")]
            #[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
            pub struct $name {
                /// The thread.
                pub session_thread_id: ThreadId,
                /// The name of the agent it runs.
                pub agent_name: String,
            }

        )*
    };
}

named! {
    ThreadRunning, "session.thread_status_running";
    ThreadRescheduled, "session.thread_status_rescheduled";
    ThreadTerminated, "session.thread_status_terminated";
}

/// Body of `session.thread_status_idle`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ThreadIdle {
    /// The thread.
    pub session_thread_id: ThreadId,
    /// The name of the agent it runs.
    pub agent_name: String,
    /// Why.
    pub stop_reason: StopReason,
    /// More on a refusal; null otherwise.
    #[serde(default)]
    pub stop_details: Option<StopDetails>,
}
