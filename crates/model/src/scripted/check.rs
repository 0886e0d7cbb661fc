//! The checks that the real API makes, with its words where they are known.

use serde_json::{Map, Value};

use super::request::{Request, Role};
use super::{Rejection, tokens};

mod blocks;
mod cache;
mod messages;
mod settings;
mod tools;

/// The most bytes of a body.
pub(crate) const BODY: usize = 32 * 1024 * 1024;

/// The context window, in tokens; the table of model facts says the same.
const WINDOW: u64 = 200_000;

/// The most output tokens; the table of model facts says the same.
const MAX_OUTPUT: u64 = 128_000;

/// The fields a request may have.
const FIELDS: [&str; 23] = [
    "cache_control",
    "compaction",
    "container",
    "context_management",
    "inference_geo",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "output_config",
    "output_format",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];

/// Which version of the API a client speaks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Dialect {
    /// `anthropic-version: 2023-06-01`.
    #[default]
    V2023,
    /// `anthropic-version: 2026-10-21`, which takes no sampling parameters.
    V2026,
}

/// What a body is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Purpose {
    /// To be answered.
    Answer,
    /// To have its tokens counted, which takes no `max_tokens`.
    Count,
}

/// Makes the refusal of the field at `path`.
fn at(path: &str, what: &str) -> Rejection {
    Rejection::invalid(format!("{path}: {what}"))
}

/// Checks a request body.
///
/// # Errors
/// The first thing found that the real API refuses.
pub(super) fn check(body: &[u8], dialect: Dialect, purpose: Purpose) -> Result<Request, Rejection> {
    if body.len() > BODY {
        return Err(too_large());
    }
    let body_hash = blake3::hash(body);
    let body: Value = serde_json::from_slice(body).map_err(|error| {
        Rejection::invalid(format!("The request body is not valid JSON: {error}"))
    })?;
    let Value::Object(body) = body else {
        return Err(Rejection::invalid("The request body must be a JSON object"));
    };
    known_fields(&body)?;
    let model = required_text(&body, "model")?;
    let max_tokens = match purpose {
        Purpose::Answer => settings::max_tokens(&body, MAX_OUTPUT)?,
        Purpose::Count => MAX_OUTPUT,
    };
    settings::sampling(&body, dialect)?;
    let thoughts = settings::thinking(&body, max_tokens)?;
    let tools = tools::names(&body)?;
    let system = system(&body)?;
    let messages = messages::read(&body)?;
    messages::check(&messages)?;
    cache::check(&body)?;
    let input_tokens = estimate(&body);
    if purpose == Purpose::Answer && input_tokens > WINDOW {
        return Err(Rejection::invalid(format!(
            "prompt is too long: {input_tokens} tokens > {WINDOW} maximum"
        )));
    }
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    Ok(Request {
        model,
        max_tokens,
        conversation: conversation(&body),
        messages,
        system,
        tools,
        thoughts,
        fast: text("speed").as_deref() == Some("fast"),
        inference_geo: text("inference_geo"),
        input_tokens,
        body: body_hash,
    })
}

/// Makes the refusal of a body beyond the limit.
pub(crate) fn too_large() -> Rejection {
    Rejection {
        status: 413,
        kind: "request_too_large".to_owned(),
        message: "Request exceeds the maximum size".to_owned(),
        retry_after: None,
    }
}

fn known_fields(body: &Map<String, Value>) -> Result<(), Rejection> {
    match body.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        Some(name) => Err(at(name, "Extra inputs are not permitted")),
        None => Ok(()),
    }
}

fn required_text(body: &Map<String, Value>, name: &str) -> Result<String, Rejection> {
    match body.get(name) {
        None => Err(at(name, "Field required")),
        Some(Value::String(text)) if text.is_empty() => {
            Err(at(name, "String should have at least 1 character"))
        }
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(at(name, "Input should be a valid string")),
    }
}

/// Reads the system prompt as one text.
fn system(body: &Map<String, Value>) -> Result<String, Rejection> {
    match body.get("system") {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(items)) => {
            let mut texts = Vec::new();
            for (index, block) in items.iter().enumerate() {
                let path = format!("system.{index}");
                blocks::check(block, Role::System, &path)?;
                texts.push(
                    block
                        .get("text")
                        .and_then(Value::as_str)
                        .unwrap_or_default(),
                );
            }
            Ok(texts.join("\n"))
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            Err(at("system", "Input should be a valid string or list"))
        }
    }
}

fn estimate(body: &Map<String, Value>) -> u64 {
    ["tools", "system", "messages"]
        .iter()
        .filter_map(|name| body.get(*name))
        .map(tokens::of_value)
        .sum()
}

fn conversation(body: &Map<String, Value>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for name in ["messages", "metadata"] {
        let value = body.get(name).map(Value::to_string).unwrap_or_default();
        hasher.update(value.as_bytes()).update(&[0]);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests;
