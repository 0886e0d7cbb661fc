//! The events of a streamed answer, typed, with the bytes they came in.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Error, Failure, StopReason, UsageUpdate};

/// One event of an answer.
#[derive(Clone, Debug)]
pub struct Event {
    /// What it says.
    pub kind: Kind,
    raw: Box<RawValue>,
}

/// What an event says.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The answer begins.
    MessageStart {
        /// The provider's id of the message; any text.
        id: String,
        /// The model that answers.
        model: String,
        /// The first figures, usually those of the input.
        usage: UsageUpdate,
    },
    /// A content block begins.
    BlockStart {
        /// Its place in the answer.
        index: u32,
        /// What it is.
        block: Start,
        /// The block as it stands at its start.
        raw: Box<RawValue>,
    },
    /// A content block grows.
    BlockDelta {
        /// The block's place.
        index: u32,
        /// What is added.
        delta: Delta,
    },
    /// A content block is complete.
    BlockStop {
        /// The block's place.
        index: u32,
    },
    /// The answer's end is known.
    MessageDelta {
        /// Why it ended.
        stop_reason: Option<StopReason>,
        /// The sequence that ended it, for that reason.
        stop_sequence: Option<String>,
        /// More about the end, for refusals.
        stop_details: Option<Box<RawValue>>,
        /// Cumulative figures.
        usage: UsageUpdate,
    },
    /// The answer is complete.
    MessageStop,
    /// Nothing but a sign of life.
    Ping,
    /// An event this version does not know.
    Other {
        /// Its type.
        name: String,
    },
}

/// What a content block is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Start {
    /// Text for the reader.
    Text {
        /// What it begins with, usually nothing.
        text: String,
    },
    /// The model's thinking.
    Thinking,
    /// Thinking that only the provider can read.
    RedactedThinking,
    /// A call of one of the request's tools.
    ToolUse {
        /// The model's id of the call.
        id: String,
        /// The tool.
        name: String,
    },
    /// A block this version does not know, or one of a server tool; kept as it is.
    Other {
        /// Its type.
        name: String,
    },
}

/// What is added to a content block.
#[derive(Clone, Debug)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More thinking.
    Thinking(String),
    /// The signature of the thinking before it.
    Signature(String),
    /// More of a tool's input, as JSON text that is complete only with the block.
    InputJson(String),
    /// A citation of the text before it.
    Citation(Box<RawValue>),
    /// A delta this version does not know.
    Other {
        /// Its type.
        name: String,
        /// The delta as it came.
        raw: Box<RawValue>,
    },
}

impl Event {
    /// Reads the data of one server-sent event.
    ///
    /// # Errors
    /// An `error` event becomes the error it tells of. What is no JSON, or lacks a field its type
    /// must have, is retryable.
    pub fn parse(data: &str) -> Result<Self, Error> {
        let unreadable = |error: serde_json::Error| {
            Error::failed(format!(
                "the model's provider sent an unreadable event: {error}"
            ))
        };
        let name = serde_json::from_str::<Typed<'_>>(data)
            .map_err(unreadable)?
            .kind;
        if name == "error" {
            return Err(Failure::from_body(data).classify());
        }
        let kind = Kind::parse(&name, data).map_err(unreadable)?;
        let raw = RawValue::from_string(data.to_owned()).map_err(unreadable)?;
        Ok(Self { kind, raw })
    }

    /// Returns the event's JSON, byte for byte as it came.
    pub fn raw(&self) -> &str {
        self.raw.get()
    }

    /// Returns the event's type, which is also its name on the wire.
    pub fn name(&self) -> &str {
        match &self.kind {
            Kind::MessageStart { .. } => "message_start",
            Kind::BlockStart { .. } => "content_block_start",
            Kind::BlockDelta { .. } => "content_block_delta",
            Kind::BlockStop { .. } => "content_block_stop",
            Kind::MessageDelta { .. } => "message_delta",
            Kind::MessageStop => "message_stop",
            Kind::Ping => "ping",
            Kind::Other { name } => name,
        }
    }
}

impl Kind {
    /// Reads the event whose type is `name`.
    fn parse(name: &str, data: &str) -> serde_json::Result<Self> {
        Ok(match name {
            "message_start" => {
                let Message { id, model, usage } =
                    serde_json::from_str::<MessageStart>(data)?.message;
                Self::MessageStart {
                    id,
                    model,
                    usage: usage.unwrap_or_default(),
                }
            }
            "content_block_start" => {
                let wire: BlockStart<'_> = serde_json::from_str(data)?;
                Self::BlockStart {
                    index: wire.index,
                    block: Start::parse(wire.content_block.get())?,
                    raw: wire.content_block.to_owned(),
                }
            }
            "content_block_delta" => {
                let wire: BlockDelta<'_> = serde_json::from_str(data)?;
                Self::BlockDelta {
                    index: wire.index,
                    delta: Delta::parse(wire.delta)?,
                }
            }
            "content_block_stop" => Self::BlockStop {
                index: serde_json::from_str::<Indexed>(data)?.index,
            },
            "message_delta" => {
                let MessageDelta { delta, usage } = serde_json::from_str(data)?;
                Self::MessageDelta {
                    stop_reason: delta.stop_reason.as_deref().map(StopReason::parse),
                    stop_sequence: delta.stop_sequence,
                    stop_details: delta.stop_details,
                    usage: usage.unwrap_or_default(),
                }
            }
            "message_stop" => Self::MessageStop,
            "ping" => Self::Ping,
            other => Self::Other {
                name: other.to_owned(),
            },
        })
    }
}

impl Start {
    fn parse(block: &str) -> serde_json::Result<Self> {
        let name = serde_json::from_str::<Typed<'_>>(block)?.kind;
        Ok(match name.as_ref() {
            "text" => Self::Text {
                text: serde_json::from_str::<TextStart>(block)?
                    .text
                    .unwrap_or_default(),
            },
            "thinking" => Self::Thinking,
            "redacted_thinking" => Self::RedactedThinking,
            "tool_use" => {
                let ToolUse { id, name } = serde_json::from_str(block)?;
                Self::ToolUse { id, name }
            }
            other => Self::Other {
                name: other.to_owned(),
            },
        })
    }
}

impl Delta {
    fn parse(delta: &RawValue) -> serde_json::Result<Self> {
        let json = delta.get();
        let name = serde_json::from_str::<Typed<'_>>(json)?.kind;
        Ok(match name.as_ref() {
            "text_delta" => Self::Text(serde_json::from_str::<TextDelta>(json)?.text),
            "thinking_delta" => {
                Self::Thinking(serde_json::from_str::<ThinkingDelta>(json)?.thinking)
            }
            "signature_delta" => {
                Self::Signature(serde_json::from_str::<SignatureDelta>(json)?.signature)
            }
            "input_json_delta" => {
                Self::InputJson(serde_json::from_str::<InputJsonDelta>(json)?.partial_json)
            }
            "citations_delta" => {
                Self::Citation(serde_json::from_str::<CitationsDelta>(json)?.citation)
            }
            other => Self::Other {
                name: other.to_owned(),
                raw: delta.to_owned(),
            },
        })
    }
}

#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct MessageStart {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    id: String,
    #[serde(default)]
    model: String,
    usage: Option<UsageUpdate>,
}

#[derive(Deserialize)]
struct BlockStart<'a> {
    index: u32,
    #[serde(borrow)]
    content_block: &'a RawValue,
}

#[derive(Deserialize)]
struct BlockDelta<'a> {
    index: u32,
    #[serde(borrow)]
    delta: &'a RawValue,
}

#[derive(Deserialize)]
struct Indexed {
    index: u32,
}

#[derive(Deserialize)]
struct MessageDelta {
    delta: End,
    usage: Option<UsageUpdate>,
}

#[derive(Deserialize)]
struct End {
    stop_reason: Option<String>,
    stop_sequence: Option<String>,
    stop_details: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct TextStart {
    text: Option<String>,
}

#[derive(Deserialize)]
struct ToolUse {
    id: String,
    name: String,
}

#[derive(Deserialize)]
struct TextDelta {
    text: String,
}

#[derive(Deserialize)]
struct ThinkingDelta {
    thinking: String,
}

#[derive(Deserialize)]
struct SignatureDelta {
    signature: String,
}

#[derive(Deserialize)]
struct InputJsonDelta {
    partial_json: String,
}

#[derive(Deserialize)]
struct CitationsDelta {
    citation: Box<RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_keeps_its_bytes() {
        let data = r#"{ "type":"ping", "x": 1.0 }"#;
        let event = Event::parse(data).unwrap();
        assert!(matches!(event.kind, Kind::Ping));
        assert_eq!((event.raw(), event.name()), (data, "ping"));
    }

    #[test]
    fn an_unknown_event_is_kept_and_an_error_event_is_an_error() {
        let other = Event::parse(r#"{"type":"weather","index":"not a number"}"#).unwrap();
        assert_eq!(other.name(), "weather");
        let error = Event::parse(
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        )
        .unwrap_err();
        assert!(matches!(
            error,
            Error::Retry {
                kind: crate::RetryKind::Overloaded,
                ..
            }
        ));
    }

    #[test]
    fn broken_events_are_retryable() {
        for data in [
            "",
            "{",
            "[]",
            "null",
            r#"{"no":"type"}"#,
            r#"{"type":"content_block_start","index":0}"#,
            r#"{"type":"content_block_start","index":-1,"content_block":{"type":"text"}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}}"#,
            r#"{"type":"message_delta"}"#,
        ] {
            assert!(Event::parse(data).unwrap_err().is_retryable(), "{data}");
        }
    }
}
