//! Checks of the conversation: whose turn it is, and that every call has its result.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::super::request::{Message, Role, field, kind};
use super::{Rejection, at, blocks};

/// Reads the messages; the content of each becomes blocks.
pub(super) fn read(body: &Map<String, Value>) -> Result<Vec<Message>, Rejection> {
    let messages = match body.get("messages") {
        None => return Err(at("messages", "Field required")),
        Some(Value::Array(messages)) => messages,
        Some(_) => return Err(at("messages", "Input should be a valid list")),
    };
    if messages.is_empty() {
        return Err(at("messages", "at least one message is required"));
    }
    let read = |(index, message)| read_one(message, &format!("messages.{index}"));
    messages.iter().enumerate().map(read).collect()
}

fn read_one(message: &Value, path: &str) -> Result<Message, Rejection> {
    let Value::Object(message) = message else {
        return Err(at(path, "Input should be a valid dictionary"));
    };
    if let Some(name) = message
        .keys()
        .find(|name| !["role", "content"].contains(&name.as_str()))
    {
        return Err(at(
            &format!("{path}.{name}"),
            "Extra inputs are not permitted",
        ));
    }
    let role = match message
        .get("role")
        .map(|role| role.as_str().unwrap_or_default())
    {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        Some(_) => {
            let what = "Input should be 'user', 'assistant' or 'system'";
            return Err(at(&format!("{path}.role"), what));
        }
        None => return Err(at(&format!("{path}.role"), "Field required")),
    };
    let content = format!("{path}.content");
    let blocks = match message.get("content") {
        None => return Err(at(&content, "Field required")),
        Some(Value::String(text)) if text.is_empty() => return Err(empty(path)),
        Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
        Some(Value::Array(items)) if items.is_empty() => return Err(empty(path)),
        Some(Value::Array(items)) => items.clone(),
        Some(_) => return Err(at(&content, "Input should be a valid string or list")),
    };
    for (index, block) in blocks.iter().enumerate() {
        blocks::check(block, role, &format!("{content}.{index}"))?;
    }
    Ok(Message { role, blocks })
}

fn empty(path: &str) -> Rejection {
    at(path, "all messages must have non-empty content")
}

/// Checks the conversation as a whole.
pub(super) fn check(messages: &[Message]) -> Result<(), Rejection> {
    if messages
        .first()
        .is_some_and(|first| first.role != Role::User)
    {
        return Err(at("messages", "first message must use the \"user\" role"));
    }
    unique_ids(messages)?;
    for (index, message) in messages.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| messages.get(before));
        if message.role == Role::System {
            place_of_system(index, before, messages.get(index + 1))?;
        }
        results_have_calls(index, message, before)?;
        calls_have_results(index, message, messages.get(index + 1))?;
    }
    Ok(())
}

/// A system message belongs to the user's turn before it and ends it.
fn place_of_system(
    index: usize,
    before: Option<&Message>,
    after: Option<&Message>,
) -> Result<(), Rejection> {
    let path = format!("messages.{index}");
    let follows = before.is_some_and(|before| match before.role {
        Role::User => true,
        Role::Assistant => before
            .blocks
            .last()
            .is_some_and(|last| is_server_tool(kind(last))),
        Role::System => false,
    });
    if !follows {
        let what = "role 'system' must directly follow a 'user' message";
        return Err(at(&path, what));
    }
    if after.is_some_and(|after| after.role != Role::Assistant) {
        let what = "role 'system' must be last or be followed by an 'assistant' message";
        return Err(at(&path, what));
    }
    Ok(())
}

fn is_server_tool(name: &str) -> bool {
    name == "server_tool_use" || (name.ends_with("_tool_result") && name != "tool_result")
}

fn unique_ids(messages: &[Message]) -> Result<(), Rejection> {
    let mut seen = HashSet::new();
    let mut ids = messages.iter().flat_map(calls);
    if ids.all(|id| seen.insert(id)) {
        return Ok(());
    }
    Err(at("messages", "`tool_use` ids must be unique"))
}

/// Every result answers a call of the message directly before, once.
fn results_have_calls(
    index: usize,
    message: &Message,
    before: Option<&Message>,
) -> Result<(), Rejection> {
    let asked: HashSet<_> = before.into_iter().flat_map(calls).collect();
    let mut seen = HashSet::new();
    for (at_block, id) in results(message) {
        if !asked.contains(id) {
            let path = format!("messages.{index}.content.{at_block}");
            let what = format!(
                "unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` \
                 block must have a corresponding `tool_use` block in the previous message."
            );
            return Err(at(&path, &what));
        }
        if !seen.insert(id) {
            let what = format!(
                "each tool_use must have a single result. Found multiple `tool_result` blocks \
                 with id: {id}"
            );
            return Err(at(&format!("messages.{index}.content"), &what));
        }
    }
    Ok(())
}

/// Every call is answered in the very next message, before anything else in it.
fn calls_have_results(
    index: usize,
    message: &Message,
    after: Option<&Message>,
) -> Result<(), Rejection> {
    let leading = |after: &Message| -> HashSet<String> {
        let is_result = |block: &&Value| kind(block) == "tool_result";
        let first = after.blocks.iter().take_while(is_result);
        first
            .filter_map(|block| field(block, "tool_use_id"))
            .map(str::to_owned)
            .collect()
    };
    let answered = match after {
        Some(after) if after.role == Role::User => leading(after),
        Some(_) | None => HashSet::new(),
    };
    let open: Vec<_> = calls(message)
        .filter(|id| !answered.contains(*id))
        .collect();
    if open.is_empty() {
        return Ok(());
    }
    let what = format!(
        "`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
         `tool_use` block must have a corresponding `tool_result` block in the next message.",
        open.join(", ")
    );
    Err(at(&format!("messages.{index}"), &what))
}

/// The ids of the calls of a message.
fn calls(message: &Message) -> impl Iterator<Item = &str> {
    let calls = message
        .blocks
        .iter()
        .filter(|block| kind(block) == "tool_use");
    calls.filter_map(|block| field(block, "id"))
}

/// The results of a message: place and id.
fn results(message: &Message) -> impl Iterator<Item = (usize, &str)> {
    let blocks = message.blocks.iter().enumerate();
    blocks
        .filter(|(_, block)| kind(block) == "tool_result")
        .filter_map(|(index, block)| Some((index, field(block, "tool_use_id")?)))
}
