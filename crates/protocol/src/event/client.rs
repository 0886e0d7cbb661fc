//! Events that clients send.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Body as _, Kind};
use crate::content::{Block, TextBlock};
use crate::id::{EventId, ThreadId};
use crate::words::words;

/// An event of a client, checked as far as it can be without the session's state.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// A message of the user; starts a turn or queues.
    UserMessage(UserMessage),
    /// Stops what runs.
    UserInterrupt(UserInterrupt),
    /// Answers a call that asked for permission.
    UserToolConfirmation(UserToolConfirmation),
    /// The result of a custom tool.
    UserCustomToolResult(UserCustomToolResult),
    /// Privileged context for this turn and later ones.
    SystemMessage(SystemMessage),
}

impl ClientEvent {
    /// Returns the type of the event.
    pub fn kind(&self) -> Kind {
        match self {
            Self::UserMessage(_) => Kind::UserMessage,
            Self::UserInterrupt(_) => Kind::UserInterrupt,
            Self::UserToolConfirmation(_) => Kind::UserToolConfirmation,
            Self::UserCustomToolResult(_) => Kind::UserCustomToolResult,
            Self::SystemMessage(_) => Kind::SystemMessage,
        }
    }

    /// Returns the blocks that may name files.
    pub fn blocks(&self) -> &[Block] {
        match self {
            Self::UserMessage(body) => &body.content,
            Self::UserCustomToolResult(body) => body.content.as_deref().unwrap_or_default(),
            Self::UserInterrupt(_) | Self::UserToolConfirmation(_) | Self::SystemMessage(_) => &[],
        }
    }

    /// Serializes the body to compact JSON: once, then keep it.
    pub fn to_raw(&self) -> Box<RawValue> {
        match self {
            Self::UserMessage(body) => body.to_raw(),
            Self::UserInterrupt(body) => body.to_raw(),
            Self::UserToolConfirmation(body) => body.to_raw(),
            Self::UserCustomToolResult(body) => body.to_raw(),
            Self::SystemMessage(body) => body.to_raw(),
        }
    }
}

/// Body of `user.message`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct UserMessage {
    /// Text, images, documents; never empty.
    pub content: Vec<Block>,
}

/// Body of `user.interrupt`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct UserInterrupt {
    /// The one thread to interrupt; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_thread_id: Option<ThreadId>,
}

/// Body of `user.tool_confirmation`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct UserToolConfirmation {
    /// The call that asked.
    pub tool_use_id: EventId,
    /// The answer.
    pub result: Confirmation,
    /// Why not, for the model; only with [`Confirmation::Deny`].
    #[serde(default)]
    pub deny_message: Option<String>,
}

words! {
    /// The answer to a call that asks.
    pub enum Confirmation {
        /// Run it.
        Allow = "allow",
        /// Do not.
        Deny = "deny",
    }
}

/// Body of `user.custom_tool_result`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct UserCustomToolResult {
    /// The call.
    pub custom_tool_use_id: EventId,
    /// What it returned; absent and empty both mean nothing to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<Block>>,
    /// Whether the model should take it as a failure; null means no.
    #[serde(default)]
    pub is_error: Option<bool>,
}

/// Body of `system.message`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SystemMessage {
    /// Text alone; never empty.
    pub content: Vec<TextBlock>,
}
