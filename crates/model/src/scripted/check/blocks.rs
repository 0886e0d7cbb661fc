//! Checks of single content blocks.

use serde_json::Value;

use super::super::request::{Role, field, kind};
use super::super::sign;
use super::tools::is_name;
use super::{Rejection, at};

/// Checks a block of a message of `role`; those of the system prompt count as the system's.
pub(super) fn check(block: &Value, role: Role, path: &str) -> Result<(), Rejection> {
    if !block.is_object() {
        return Err(at(path, "Input should be a valid dictionary"));
    }
    match (kind(block), role) {
        ("", _) => Err(at(&format!("{path}.type"), "Field required")),
        ("text", _) => text(block, path),
        ("image" | "document", Role::User) => source(block, path),
        ("search_result" | "container_upload", Role::User) => Ok(()),
        ("tool_result", Role::User) => tool_result(block, path),
        ("tool_use", Role::Assistant) => tool_use(block, path),
        ("thinking", Role::Assistant) => thinking(block, path),
        ("redacted_thinking", Role::Assistant) => redacted(block, path),
        // A script can make the model say blocks of any type, and gets them back.
        (name, Role::Assistant) if !is_of_user(name) => Ok(()),
        (name, Role::User | Role::Assistant | Role::System) => Err(at(
            path,
            &format!(
                "Input tag '{name}' found using 'type' does not match any of the expected tags"
            ),
        )),
    }
}

fn is_of_user(name: &str) -> bool {
    matches!(
        name,
        "image" | "tool_result" | "search_result" | "container_upload"
    )
}

fn text(block: &Value, path: &str) -> Result<(), Rejection> {
    let Some(text) = block.get("text") else {
        return Err(at(&format!("{path}.text.text"), "Field required"));
    };
    let Some(text) = text.as_str() else {
        return Err(at(
            &format!("{path}.text.text"),
            "Input should be a valid string",
        ));
    };
    if text.is_empty()
        && block
            .get("cache_control")
            .is_some_and(|control| !control.is_null())
    {
        return Err(at(
            path,
            "cache_control cannot be set for empty text blocks",
        ));
    }
    not_blank(text)
}

/// Refuses a text that has nothing to say, in the words of the API.
pub(super) fn not_blank(text: &str) -> Result<(), Rejection> {
    if text.is_empty() {
        return Err(Rejection::invalid(
            "messages: text content blocks must be non-empty",
        ));
    }
    if text.trim().is_empty() {
        return Err(Rejection::invalid(
            "messages: text content blocks must contain non-whitespace text",
        ));
    }
    Ok(())
}

fn source(block: &Value, path: &str) -> Result<(), Rejection> {
    let name = kind(block);
    let path = format!("{path}.{name}.source");
    let Some(source) = block.get("source") else {
        return Err(at(&path, "Field required"));
    };
    let needed = match kind(source) {
        "base64" | "text" => "data",
        "url" => "url",
        "file" => "file_id",
        "content" => return Ok(()),
        _ => {
            return Err(at(
                &path,
                "Input tag found using 'type' does not match any of the expected tags",
            ));
        }
    };
    match field(source, needed) {
        Some(value) if !value.is_empty() => Ok(()),
        Some(_) | None => Err(at(&format!("{path}.{needed}"), "Field required")),
    }
}

fn tool_use(block: &Value, path: &str) -> Result<(), Rejection> {
    let path = format!("{path}.tool_use");
    let id = field(block, "id").ok_or_else(|| at(&format!("{path}.id"), "Field required"))?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.is_empty() || !id.chars().all(allowed) {
        let what = "String should match pattern '^[a-zA-Z0-9_-]+$'";
        return Err(at(&format!("{path}.id"), what));
    }
    if !field(block, "name").is_some_and(is_name) {
        let what = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'";
        return Err(at(&format!("{path}.name"), what));
    }
    match block.get("input") {
        Some(Value::Object(_)) => Ok(()),
        Some(_) => Err(at(
            &format!("{path}.input"),
            "Input should be a valid dictionary",
        )),
        None => Err(at(&format!("{path}.input"), "Field required")),
    }
}

fn thinking(block: &Value, path: &str) -> Result<(), Rejection> {
    let path = format!("{path}.thinking");
    let text = field(block, "thinking")
        .ok_or_else(|| at(&format!("{path}.thinking"), "Field required"))?;
    let signature = field(block, "signature")
        .ok_or_else(|| at(&format!("{path}.signature"), "Field required"))?;
    if signature == sign::signature(text) {
        return Ok(());
    }
    Err(at(&path, "Invalid `signature` in `thinking` block"))
}

fn redacted(block: &Value, path: &str) -> Result<(), Rejection> {
    let path = format!("{path}.redacted_thinking");
    let data = field(block, "data").ok_or_else(|| at(&format!("{path}.data"), "Field required"))?;
    if sign::is_redacted(data) {
        return Ok(());
    }
    Err(at(&path, "Invalid `data` in `redacted_thinking` block"))
}

fn tool_result(block: &Value, path: &str) -> Result<(), Rejection> {
    let path = format!("{path}.tool_result");
    if field(block, "tool_use_id").is_none() {
        return Err(at(&format!("{path}.tool_use_id"), "Field required"));
    }
    let is_error = match block.get("is_error") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(is_error)) => *is_error,
        Some(_) => {
            return Err(at(
                &format!("{path}.is_error"),
                "Input should be a valid boolean",
            ));
        }
    };
    let is_empty = match block.get("content") {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                result_item(item, is_error, &format!("{path}.content.{index}"))?;
            }
            items.is_empty()
        }
        Some(_) => {
            return Err(at(
                &format!("{path}.content"),
                "Input should be a valid string or list",
            ));
        }
    };
    if is_error && is_empty {
        return Err(at(&path, "content cannot be empty if `is_error` is true"));
    }
    Ok(())
}

fn result_item(item: &Value, is_error: bool, path: &str) -> Result<(), Rejection> {
    match kind(item) {
        "text" => text(item, path),
        _ if is_error => Err(at(
            path,
            "all content must be type \"text\" if `is_error` is true",
        )),
        "image" | "document" => source(item, path),
        "search_result" | "tool_reference" => Ok(()),
        name => Err(at(
            path,
            &format!(
                "Input tag '{name}' found using 'type' does not match any of the expected tags"
            ),
        )),
    }
}
