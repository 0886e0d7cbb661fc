//! Events of a session: what clients send and what the server makes.
//!
//! The log keeps an event's **body**: the compact JSON object of its fields without `id`, `type`
//! and `processed_at`. [`wire()`] splices those three in front of a stored body, so that a body is
//! serialized once in its life. One file per family.

mod agent_custom_tool_use;
mod agent_message;
mod agent_thinking;
mod agent_tool_result;
mod agent_tool_use;
mod client;
mod kind;
mod preview;
mod send;
mod session_deleted;
mod session_error;
mod session_status;
mod session_updated;
mod session_usage;
mod span;
mod stop;
mod thread_status;
mod wire;

pub use agent_custom_tool_use::AgentCustomToolUse;
pub use agent_message::AgentMessage;
pub use agent_thinking::AgentThinking;
pub use agent_tool_result::AgentToolResult;
pub use agent_tool_use::{AgentToolUse, AutoPermission, Evaluation, Permission};
pub use client::{
    ClientEvent, Confirmation, SystemMessage, UserCustomToolResult, UserInterrupt, UserMessage,
    UserToolConfirmation,
};
pub use kind::Kind;
pub use preview::{Delta, Piece, Ping, Previewed, Start};
pub use send::{parse_initial, parse_send};
pub use session_deleted::SessionDeleted;
pub use session_error::{ErrorKind, RetryStatus, SessionError, SessionErrorBody};
pub use session_status::{StatusIdle, StatusRescheduled, StatusRunning, StatusTerminated};
pub use session_updated::SessionUpdated;
pub use session_usage::SessionUsage;
pub use span::{ModelRequestEnd, ModelRequestStart, ModelUsage};
pub use stop::{StopDetails, StopReason};
pub use thread_status::{ThreadIdle, ThreadRescheduled, ThreadRunning, ThreadTerminated};
pub use wire::{Body, wire};

#[cfg(test)]
mod tests;
