//! The types of events, as the wire names them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Declares the types with their words.
macro_rules! kinds {
    ($($name:ident = $word:literal,)*) => {
        /// The `type` of an event that a log can hold.
        ///
        /// All types of the public API are listed, because lists filter by any of them; some of
        /// them this server does not make yet.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum Kind {
            $(#[doc = concat!("`", $word, "`.")] $name,)*
        }

        impl Kind {
            /// Every type with its word, for filters.
            pub const TABLE: &'static [(&'static str, Self)] = &[$(($word, Self::$name),)*];

            /// Returns the word of the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// Reads the word; `None` if no event has it.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$name),)* _ => None }
            }
        }
    };
}

kinds! {
    UserMessage = "user.message",
    UserInterrupt = "user.interrupt",
    UserToolConfirmation = "user.tool_confirmation",
    UserCustomToolResult = "user.custom_tool_result",
    UserToolResult = "user.tool_result",
    UserDefineOutcome = "user.define_outcome",
    SystemMessage = "system.message",
    AgentMessage = "agent.message",
    AgentThinking = "agent.thinking",
    AgentToolUse = "agent.tool_use",
    AgentToolResult = "agent.tool_result",
    AgentMcpToolUse = "agent.mcp_tool_use",
    AgentMcpToolResult = "agent.mcp_tool_result",
    AgentCustomToolUse = "agent.custom_tool_use",
    AgentThreadMessageSent = "agent.thread_message_sent",
    AgentThreadMessageReceived = "agent.thread_message_received",
    AgentThreadContextCompacted = "agent.thread_context_compacted",
    SessionStatusRunning = "session.status_running",
    SessionStatusRescheduled = "session.status_rescheduled",
    SessionStatusTerminated = "session.status_terminated",
    SessionStatusIdle = "session.status_idle",
    SessionUpdated = "session.updated",
    SessionDeleted = "session.deleted",
    SessionError = "session.error",
    SessionUsage = "session.usage",
    SessionThreadCreated = "session.thread_created",
    SessionThreadStatusRunning = "session.thread_status_running",
    SessionThreadStatusRescheduled = "session.thread_status_rescheduled",
    SessionThreadStatusTerminated = "session.thread_status_terminated",
    SessionThreadStatusIdle = "session.thread_status_idle",
    SpanModelRequestStart = "span.model_request_start",
    SpanModelRequestEnd = "span.model_request_end",
    SpanOutcomeEvaluationStart = "span.outcome_evaluation_start",
    SpanOutcomeEvaluationOngoing = "span.outcome_evaluation_ongoing",
    SpanOutcomeEvaluationEnd = "span.outcome_evaluation_end",
    WorkflowRunCreated = "workflow_run.created",
    WorkflowRunStatusRunning = "workflow_run.status_running",
    WorkflowRunStatusIdle = "workflow_run.status_idle",
    WorkflowRunStatusEnded = "workflow_run.status_ended",
    WorkflowRunPhaseStarted = "workflow_run.phase_started",
    WorkflowRunPhaseEnded = "workflow_run.phase_ended",
    WorkflowRunError = "workflow_run.error",
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&word).ok_or_else(|| D::Error::custom("not a type of event"))
    }
}
