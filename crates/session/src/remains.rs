//! What is left of a body that is erased: what folding, clients and requests need of it, and
//! nobody's words.

use serde_json::{Map, Value, json};

use crate::{Json, Kind, json as serialize};

/// What stands in the place of words.
pub const ERASED: &str = "[erased]";

/// What stands in the place of a tool's name, where words are no name.
const NAME: &str = "erased";

/// Returns what is left of a body; `None` if there are no words in it, or none that can go.
///
/// `knows` tells whether the agent has a tool of that name: any other name is the model's own
/// invention, and goes. Ids, kinds, outcomes and numbers stay.
pub fn remains(kind: Kind, body: &str, knows: &dyn Fn(&str) -> bool) -> Option<Json> {
    let before: Map<String, Value> = serde_json::from_str(body).ok()?;
    let mut left = before.clone();
    mask(kind.announces().unwrap_or(kind), &mut left, knows)?;
    (left != before).then(|| serialize(&left))
}

/// Masks the words in a body; `None` if bodies of this kind are not erased.
fn mask(kind: Kind, body: &mut Map<String, Value>, knows: &dyn Fn(&str) -> bool) -> Option<()> {
    match kind {
        Kind::UserMessage | Kind::SystemMessage | Kind::AgentMessage => {
            hide(body, &[], &["content"])
        }
        Kind::UserToolConfirmation => hide(body, &["tool_use_id", "result"], &["deny_message"]),
        Kind::UserCustomToolResult => {
            hide(body, &["custom_tool_use_id", "is_error"], &["content"]);
        }
        Kind::AgentToolResult => hide(body, &["tool_use_id", "is_error"], &["content"]),
        Kind::AgentToolUse | Kind::AgentCustomToolUse => {
            let kept = ["name", "evaluated_permission", "evaluation"];
            hide(body, &kept, &["input"]);
            rename(body, knows);
        }
        Kind::SessionError => inside(body, "error", |error| {
            let kept = [
                "type",
                "retry_status",
                "mcp_server_name",
                "credential_id",
                "vault_id",
            ];
            hide(error, &kept, &["message", "repository_url"]);
        }),
        Kind::SessionIdle | Kind::ThreadIdle => inside(body, "stop_details", |details| {
            hide(details, &["type", "category"], &["explanation"]);
        }),
        Kind::Response => respond(body, knows),
        Kind::AgentThinking
        | Kind::UserInterrupt
        | Kind::SessionRunning
        | Kind::SessionRescheduled
        | Kind::SessionTerminated
        | Kind::ThreadRunning
        | Kind::ThreadRescheduled
        | Kind::ThreadTerminated
        | Kind::SessionUsage
        | Kind::RequestStart
        | Kind::RequestEnd => return None,
        // What the session runs with, and notes of the server's own.
        Kind::SessionUpdated
        | Kind::Created
        | Kind::Updated
        | Kind::ArrivedMessage
        | Kind::ArrivedInterrupt
        | Kind::ArrivedSystem
        | Kind::ArrivedToolResult
        | Kind::Claimed
        | Kind::Released
        | Kind::Parked
        | Kind::RequestEnded
        | Kind::Intended
        | Kind::Settled
        | Kind::HandWanted
        | Kind::HandLost
        | Kind::Checkpointed
        | Kind::Pinned
        | Kind::Prefix
        | Kind::Noted
        | Kind::ResourceAdded
        | Kind::ResourceRemoved
        | Kind::ResourceUpdated
        | Kind::Cloned
        | Kind::Unreachable
        | Kind::Deadlines
        | Kind::Erased
        | Kind::Archived
        | Kind::Deleted => return None,
    }
    Some(())
}

/// Keeps some fields, hides the words of others, and drops the rest.
fn hide(body: &mut Map<String, Value>, kept: &[&str], hidden: &[&str]) {
    body.retain(|key, _| kept.contains(&key.as_str()) || hidden.contains(&key.as_str()));
    for (key, value) in body {
        if hidden.contains(&key.as_str()) {
            *value = hidden_of(value);
        }
    }
}

/// Returns what a value becomes: of the same shape, and empty.
fn hidden_of(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Array(list) if list.is_empty() => json!([]),
        Value::Array(_) => json!([text()]),
        Value::Object(_) => json!({}),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => json!(ERASED),
    }
}

fn text() -> Value {
    json!({ "type": "text", "text": ERASED })
}

/// Changes an object within a body, if it is there.
fn inside(body: &mut Map<String, Value>, key: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    if let Some(Value::Object(object)) = body.get_mut(key) {
        change(object);
    }
}

/// Takes away a tool's name that the agent does not know.
fn rename(body: &mut Map<String, Value>, knows: &dyn Fn(&str) -> bool) {
    if let Some(Value::String(name)) = body.get_mut("name")
        && !knows(name)
    {
        NAME.clone_into(name);
    }
}

/// Masks a response: its calls keep their ids, so that results still answer them; what it thought
/// goes, because a signature holds for the exact words alone.
fn respond(body: &mut Map<String, Value>, knows: &dyn Fn(&str) -> bool) {
    let kept = ["request", "blocks", "stop", "after", "calls"];
    body.retain(|key, _| kept.contains(&key.as_str()));
    let Some(Value::Array(blocks)) = body.get_mut("blocks") else {
        return;
    };
    let masked: Vec<Value> = blocks
        .iter()
        .filter_map(|block| masked(block, knows))
        .collect();
    *blocks = match masked.is_empty() && !blocks.is_empty() {
        true => vec![text()],
        false => masked,
    };
}

fn masked(block: &Value, knows: &dyn Fn(&str) -> bool) -> Option<Value> {
    match block.get("type").and_then(Value::as_str) {
        Some("thinking" | "redacted_thinking") => None,
        Some("tool_use") => {
            let mut call = block.as_object().cloned().unwrap_or_default();
            hide(&mut call, &["type", "id", "name"], &["input"]);
            rename(&mut call, knows);
            Some(Value::Object(call))
        }
        _ => Some(text()),
    }
}

#[cfg(test)]
mod tests;
