//! Records as one readable line each.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most kinds of records have nothing to look at"
)]

use outlast_session::Kind;
use serde_json::Value;

use crate::world::{Kept, World};

/// The kind of a record, and what tells it from others of its kind.
pub(crate) fn line(world: &World, kept: &Kept) -> String {
    let body = kept.json();
    let detail = detail(world, kept, &body);
    if detail.is_empty() {
        kept.kind.to_string()
    } else {
        format!("{} {detail}", kept.kind)
    }
}

fn detail(world: &World, kept: &Kept, body: &Value) -> String {
    let own = kept.event.map(|id| name(world, &id.to_string()));
    match kept.kind {
        Kind::UserMessage
        | Kind::SystemMessage
        | Kind::ArrivedMessage
        | Kind::ArrivedSystem
        | Kind::AgentMessage => text(&body["content"][0]["text"]),
        Kind::SessionIdle | Kind::ThreadIdle => reason(world, &body["stop_reason"]),
        Kind::RequestStart | Kind::AgentCustomToolUse => own.unwrap_or_default(),
        Kind::AgentToolUse => {
            format!(
                "{} {}",
                own.unwrap_or_default(),
                text(&body["evaluated_permission"])
            )
        }
        Kind::AgentToolResult | Kind::ArrivedToolResult => name(world, &text(&body["tool_use_id"])),
        Kind::UserToolConfirmation => {
            format!(
                "{} {}",
                name(world, &text(&body["tool_use_id"])),
                text(&body["result"])
            )
        }
        Kind::UserCustomToolResult => name(world, &text(&body["custom_tool_use_id"])),
        Kind::Settled => {
            format!(
                "{} {}",
                name(world, &text(&body["call"])),
                text(&body["outcome"])
            )
        }
        Kind::Intended => name(world, &text(&body["call"])),
        Kind::RequestEnd => {
            let failed = if body["is_error"] == true {
                " error"
            } else {
                ""
            };
            format!(
                "{}{failed}",
                name(world, &text(&body["model_request_start_id"]))
            )
        }
        Kind::RequestEnded => name(world, &text(&body["request"])),
        Kind::Claimed if body["revived"] == true => format!("{} revived", body["epoch"]),
        Kind::Claimed => body["epoch"].to_string(),
        Kind::Released if body["broken"] == true => "broken".to_owned(),
        Kind::Released if body["retry_at"].is_string() => "to retry".to_owned(),
        Kind::SessionError => text(&body["error"]["retry_status"]["type"]),
        _ => String::new(),
    }
}

fn reason(world: &World, reason: &Value) -> String {
    let ids = reason["event_ids"].as_array().into_iter().flatten();
    let words = std::iter::once(text(&reason["type"]));
    let all: Vec<_> = words.chain(ids.map(|id| name(world, &text(id)))).collect();
    all.join(" ")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn name(world: &World, id: &str) -> String {
    let known = outlast_protocol::id::EventId::parse(id).and_then(|id| world.names.get(&id));
    known.cloned().unwrap_or_else(|| "?".to_owned())
}
