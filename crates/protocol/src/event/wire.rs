//! Bodies, and the wire form that is spliced around them.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{
    AgentCustomToolUse, AgentMessage, AgentThinking, AgentToolResult, AgentToolUse, Kind,
    ModelRequestEnd, ModelRequestStart, SessionDeleted, SessionError, SessionUpdated, SessionUsage,
    StatusIdle, StatusRescheduled, StatusRunning, StatusTerminated, SystemMessage, ThreadIdle,
    ThreadRescheduled, ThreadRunning, ThreadTerminated, UserCustomToolResult, UserInterrupt,
    UserMessage, UserToolConfirmation,
};
use crate::{Micros, id::EventId};

/// The fields of an event besides `id`, `type` and `processed_at`.
pub trait Body: Serialize {
    /// Returns the type of the event.
    fn kind(&self) -> Kind;

    /// Serializes to compact JSON: once, then keep it.
    #[expect(
        clippy::expect_used,
        reason = "bodies are structs with text keys and plain numbers; nothing in them can fail"
    )]
    fn to_raw(&self) -> Box<RawValue> {
        to_raw_value(self).expect("a body serializes")
    }
}

/// Gives bodies their types, each once.
macro_rules! bodies {
    ($($body:ident => $kind:ident,)*) => {
        $(impl Body for $body {
            fn kind(&self) -> Kind {
                Kind::$kind
            }
        })*
    };
}

bodies! {
    UserMessage => UserMessage,
    UserInterrupt => UserInterrupt,
    UserToolConfirmation => UserToolConfirmation,
    UserCustomToolResult => UserCustomToolResult,
    SystemMessage => SystemMessage,
    AgentMessage => AgentMessage,
    AgentThinking => AgentThinking,
    AgentToolUse => AgentToolUse,
    AgentToolResult => AgentToolResult,
    AgentCustomToolUse => AgentCustomToolUse,
    StatusRunning => SessionStatusRunning,
    StatusRescheduled => SessionStatusRescheduled,
    StatusTerminated => SessionStatusTerminated,
    StatusIdle => SessionStatusIdle,
    SessionUpdated => SessionUpdated,
    SessionDeleted => SessionDeleted,
    SessionError => SessionError,
    SessionUsage => SessionUsage,
    ThreadRunning => SessionThreadStatusRunning,
    ThreadRescheduled => SessionThreadStatusRescheduled,
    ThreadTerminated => SessionThreadStatusTerminated,
    ThreadIdle => SessionThreadStatusIdle,
    ModelRequestStart => SpanModelRequestStart,
    ModelRequestEnd => SpanModelRequestEnd,
}

/// Makes the wire form of a stored event: `id`, `type` and `processed_at`, then the body's fields.
///
/// `kind` is the event's type as it is stored. The body is copied as it stands, never parsed; it
/// must be a compact JSON object without those three fields. A missing `processed_at` is null:
/// the event is queued.
pub fn wire(kind: &str, id: EventId, processed_at: Option<Micros>, body: &RawValue) -> String {
    let fields = body.get().strip_prefix('{').unwrap_or("}").trim_start();
    let mut out = String::with_capacity(fields.len().saturating_add(128));
    // Writing to a string never fails.
    let _ = write!(out, r#"{{"id":"{id}","type":"{kind}","processed_at":"#);
    let _ = match processed_at {
        Some(at) => write!(out, r#""{at}""#),
        None => write!(out, "null"),
    };
    if !fields.starts_with('}') {
        out.push(',');
    }
    out.push_str(fields);
    out
}
