//! The kinds of records: event types, and private ones that begin with `x.`.

use std::fmt;

/// A stored kind that this version does not know.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("record kind `{kind}` is not known to this version")]
pub struct UnknownKind {
    /// The kind as it is stored.
    pub kind: String,
}

/// Declares the kinds with their stored text.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What a record is.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// Every kind, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the text that is stored, hashed and, for events, sent.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Reads the stored text.
            pub fn parse(text: &str) -> Result<Self, UnknownKind> {
                match text {
                    $($text => Ok(Self::$name),)*
                    other => Err(UnknownKind { kind: other.to_owned() }),
                }
            }
        }
    };
}

kinds! {
    /// A message of the user, in its place.
    UserMessage = "user.message",
    /// An interrupt, taken in.
    UserInterrupt = "user.interrupt",
    /// An answer to a call that asked.
    UserToolConfirmation = "user.tool_confirmation",
    /// A client's result of a custom tool.
    UserCustomToolResult = "user.custom_tool_result",
    /// An operator's message in the conversation, in its place.
    SystemMessage = "system.message",
    /// Text of the model.
    AgentMessage = "agent.message",
    /// The model thought; the text stays private.
    AgentThinking = "agent.thinking",
    /// A call of a built-in tool.
    AgentToolUse = "agent.tool_use",
    /// The result of a built-in tool.
    AgentToolResult = "agent.tool_result",
    /// A call that the client answers.
    AgentCustomToolUse = "agent.custom_tool_use",
    /// Work began.
    SessionRunning = "session.status_running",
    /// No thread works.
    SessionIdle = "session.status_idle",
    /// A retry is set.
    SessionRescheduled = "session.status_rescheduled",
    /// The end.
    SessionTerminated = "session.status_terminated",
    /// A thread began to work.
    ThreadRunning = "session.thread_status_running",
    /// A thread stopped working.
    ThreadIdle = "session.thread_status_idle",
    /// A thread will try again.
    ThreadRescheduled = "session.thread_status_rescheduled",
    /// A thread's end.
    ThreadTerminated = "session.thread_status_terminated",
    /// Title, metadata or agent of the session changed.
    SessionUpdated = "session.updated",
    /// Something failed.
    SessionError = "session.error",
    /// What the session used so far.
    SessionUsage = "session.usage",
    /// A model request began; its event id is the request's.
    RequestStart = "span.model_request_start",
    /// A model request ended.
    RequestEnd = "span.model_request_end",
    /// First record: the configuration.
    Created = "x.created",
    /// A user message arrived and waits.
    ArrivedMessage = "x.arrived.user.message",
    /// An interrupt arrived and waits.
    ArrivedInterrupt = "x.arrived.user.interrupt",
    /// A system message arrived and waits with its companion.
    ArrivedSystem = "x.arrived.system.message",
    /// A result came before that of an earlier call, and waits for it.
    ArrivedToolResult = "x.arrived.agent.tool_result",
    /// A brain took the lease of a thread.
    Claimed = "x.claimed",
    /// A brain gave it back.
    Released = "x.released",
    /// Too many brains came to nothing: nobody works on the thread until somebody asks for it.
    Parked = "x.parked",
    /// The gateway's word that a request is over, with usage.
    RequestEnded = "x.request_ended",
    /// The model's exact blocks and what they became.
    Response = "x.response",
    /// A call is about to be handed to a hand.
    Intended = "x.intended",
    /// A call is over, with its outcome.
    Settled = "x.settled",
    /// A hand is wanted under this incarnation.
    HandWanted = "x.hand_wanted",
    /// An incarnation is gone.
    HandLost = "x.hand_lost",
    /// A hand's workspace lies in a blob, as it was at a moment.
    Checkpointed = "x.checkpointed",
    /// Which harness and context strategy the session runs with.
    Pinned = "x.pinned",
    /// The system prompt and tool list that requests begin with.
    Prefix = "x.prefix",
    /// A note of a harness to itself.
    Noted = "x.noted",
    /// A file is mounted in the session's hands.
    ResourceAdded = "x.resource_added",
    /// A file is mounted no more.
    ResourceRemoved = "x.resource_removed",
    /// A repository has another token.
    ResourceUpdated = "x.resource_updated",
    /// A repository was cloned into a hand, or could not be.
    Cloned = "x.cloned",
    /// Other credentials than before name hosts that the environment does not allow.
    Unreachable = "x.unreachable",
    /// New title, metadata or agent, whole.
    Updated = "x.updated",
    /// How long it may wait and last.
    Deadlines = "x.deadlines",
    /// Bodies were erased: which, why, and what of them is left for folding.
    Erased = "x.erased",
    /// The session takes no more events.
    Archived = "x.archived",
    /// The session is gone; purging follows.
    Deleted = "x.deleted",
}

impl Kind {
    /// Tells whether records of this kind are events that clients see.
    pub fn is_public(self) -> bool {
        !self.text().starts_with("x.")
    }

    /// Returns the event that an arrival announces.
    pub fn announces(self) -> Option<Self> {
        Self::parse(self.text().strip_prefix("x.arrived.")?).ok()
    }

    /// Returns the arrival record's kind for an event that is queued first.
    pub fn arrival(self) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.announces() == Some(self))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.text()), Ok(*kind));
        }
    }

    #[test]
    fn arrivals_and_events_name_each_other() {
        assert_eq!(Kind::UserMessage.arrival(), Some(Kind::ArrivedMessage));
        assert_eq!(
            Kind::ArrivedInterrupt.announces(),
            Some(Kind::UserInterrupt)
        );
        assert_eq!(Kind::AgentMessage.arrival(), None);
        assert!(!Kind::ArrivedMessage.is_public() && Kind::SessionIdle.is_public());
    }

    #[test]
    fn a_kind_of_the_future_is_named() {
        assert_eq!(
            Kind::parse("x.teleported").unwrap_err().kind,
            "x.teleported"
        );
    }
}
