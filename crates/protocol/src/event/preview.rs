//! Frames of live streams that no log holds: previews and pings.

use serde::{Deserialize, Serialize};

use crate::{content::TextBlock, id::EventId};

/// `event_start`: an event is being made.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "event_start")]
pub struct Start {
    /// The event that will come, if nothing ends its request before.
    pub event: Previewed,
}

/// An event that can be previewed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum Previewed {
    /// Deltas follow.
    #[serde(rename = "agent.message")]
    Message {
        /// The id of the event to come.
        id: EventId,
    },
    /// No deltas follow.
    #[serde(rename = "agent.thinking")]
    Thinking {
        /// The id of the event to come.
        id: EventId,
    },
}

impl Previewed {
    /// The values of `event_deltas[]`.
    pub const NAMES: [&'static str; 2] = ["agent.message", "agent.thinking"];

    /// Returns the id of the event to come.
    pub fn id(&self) -> EventId {
        match self {
            Self::Message { id } | Self::Thinking { id } => *id,
        }
    }
}

/// `event_delta`: one more piece of an `agent.message`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "event_delta")]
pub struct Delta {
    /// The event to come.
    pub event_id: EventId,
    /// The piece.
    pub delta: Piece,
}

/// A piece of text and the block it belongs to.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "content_delta")]
pub struct Piece {
    /// Which entry of `content`; a new one makes the entry, another piece is appended to it.
    pub index: u32,
    /// The text.
    pub content: TextBlock,
}

impl Delta {
    /// Makes the piece `text` of block `index` of the event to come.
    pub fn new(event_id: EventId, index: u32, text: impl Into<String>) -> Self {
        Self {
            event_id,
            delta: Piece {
                index,
                content: TextBlock::new(text),
            },
        }
    }
}

/// `ping`: the stream lives, and how far the log is, so that quiet and behind differ.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "ping")]
pub struct Ping {
    /// The position of the last record in the session's log.
    pub head: u64,
}
