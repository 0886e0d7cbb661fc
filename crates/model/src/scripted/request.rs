//! A request that has passed the checks.

use serde_json::Value;

/// Who says a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    User,
    Assistant,
    System,
}

/// One message, its content always as blocks.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) role: Role,
    pub(super) blocks: Vec<Value>,
}

/// What becomes of scripted thinking.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Thoughts {
    /// It is sent.
    Shown,
    /// It is sent as a signature without text.
    Omitted,
    /// The request switched it off.
    Off,
}

/// A request that has passed the checks.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) model: String,
    pub(super) max_tokens: u64,
    pub(super) messages: Vec<Message>,
    pub(super) system: String,
    /// The names of the tools that may be called.
    pub(super) tools: Vec<String>,
    pub(super) thoughts: Thoughts,
    pub(super) fast: bool,
    pub(super) inference_geo: Option<String>,
    pub(super) input_tokens: u64,
    /// Names this very body.
    pub(super) body: blake3::Hash,
    /// Names messages and metadata, so a repeat with other settings counts as the same.
    pub(super) conversation: blake3::Hash,
}

impl Request {
    /// Tells whether the last word is the assistant's.
    pub(super) fn ends_with_assistant(&self) -> bool {
        self.messages
            .last()
            .is_some_and(|last| last.role == Role::Assistant)
    }
}

impl Message {
    /// Returns the message's own texts, one below the other; what tools returned is not among them.
    pub(super) fn text(&self) -> Option<String> {
        let texts: Vec<_> = self.blocks.iter().filter_map(text).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// Returns what each tool result of the message says.
    pub(super) fn results(&self) -> impl Iterator<Item = String> {
        let results = self
            .blocks
            .iter()
            .filter(|block| kind(block) == "tool_result");
        results.map(|result| match result.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(blocks)) => {
                let words = |block: &Value| match text(block) {
                    Some(text) => text.to_owned(),
                    None => format!("[{}]", kind(block)),
                };
                blocks.iter().map(words).collect::<Vec<_>>().join("\n")
            }
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
                String::new()
            }
        })
    }
}

/// Returns a block's type, empty if it has none.
pub(super) fn kind(block: &Value) -> &str {
    field(block, "type").unwrap_or_default()
}

/// Returns a field of a block if it is a string.
pub(super) fn field<'a>(block: &'a Value, name: &str) -> Option<&'a str> {
    block.get(name)?.as_str()
}

fn text(block: &Value) -> Option<&str> {
    if kind(block) == "text" {
        field(block, "text")
    } else {
        None
    }
}
