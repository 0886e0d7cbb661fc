//! The whole history: every message, response and result of the thread, in order.
//!
//! A pure function of records. Each `tool_use` is answered in the very next user message, results
//! first, in the model's order, whatever order they came in.

use std::collections::{BTreeMap, BTreeSet};

use outlast_protocol::id::EventId;
use outlast_session::{Kind, Record, body::Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[cfg(test)]
mod tests;

/// The name that snapshots of this strategy have.
pub(crate) const NAME: &str = "whole-history/1";

/// A conversation as the model is to see it.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Whole {
    /// The last record that is in it.
    pub(crate) position: u64,
    messages: Vec<Message>,
    /// The calls of the last response, in its order, while results are missing.
    open: Vec<(EventId, String)>,
    results: BTreeMap<EventId, Box<RawValue>>,
    /// Operator's turns that wait for the results before them.
    later: Vec<Box<RawValue>>,
    /// Inputs that are in it before their records were placed.
    ahead: BTreeSet<EventId>,
    /// What the last response said of its stop.
    pub(crate) details: Option<Box<RawValue>>,
}

/// One message of a request.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Message {
    pub(crate) role: Role,
    pub(crate) content: Vec<Box<RawValue>>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    User,
    Assistant,
    System,
}

/// The content of an input.
#[derive(Deserialize)]
struct Input {
    content: Vec<Box<RawValue>>,
}

/// A result, whoever gave it.
#[derive(Deserialize)]
struct ToolResult<'a> {
    #[serde(alias = "custom_tool_use_id")]
    tool_use_id: EventId,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: Option<bool>,
}

/// A record cannot be read as the conversation it must be.
#[derive(Debug, thiserror::Error)]
#[error("record {position} cannot be read into a conversation: {fault}")]
pub(crate) struct Unreadable {
    position: u64,
    fault: serde_json::Error,
}

impl Whole {
    /// The records that make up a conversation.
    pub(crate) const KINDS: [Kind; 5] = [
        Kind::UserMessage,
        Kind::SystemMessage,
        Kind::Response,
        Kind::AgentToolResult,
        Kind::UserCustomToolResult,
    ];

    /// Adds the next record.
    pub(crate) fn push(&mut self, record: &Record) -> Result<(), Unreadable> {
        let position = record.position;
        self.position = position;
        let known = record.event.is_some_and(|event| self.ahead.remove(&event));
        if known {
            return Ok(());
        }
        self.add(record.kind, record)
            .map_err(|fault| Unreadable { position, fault })
    }

    /// Adds an input whose record will be placed next.
    pub(crate) fn push_ahead(&mut self, arrival: &Record) -> Result<(), Unreadable> {
        let Some(kind) = arrival.kind.announces() else {
            return Ok(());
        };
        self.ahead.extend(arrival.event);
        let position = arrival.position;
        self.add(kind, arrival)
            .map_err(|fault| Unreadable { position, fault })
    }

    fn add(&mut self, kind: Kind, record: &Record) -> Result<(), serde_json::Error> {
        let text = record.body.text();
        if kind == Kind::UserMessage {
            self.close();
            self.extend(Role::User, serde_json::from_str::<Input>(text)?.content);
        } else if kind == Kind::SystemMessage {
            self.operator(serde_json::from_str::<Input>(text)?.content);
        } else if kind == Kind::Response {
            self.respond(serde_json::from_str(text)?);
        } else if matches!(kind, Kind::AgentToolResult | Kind::UserCustomToolResult) {
            self.result(&serde_json::from_str(text)?)?;
        }
        Ok(())
    }

    /// Returns the messages; calls without a result are answered in words first.
    pub(crate) fn messages(&mut self) -> &[Message] {
        self.close();
        &self.messages
    }

    fn respond(&mut self, response: Response) {
        self.close();
        self.details = response.details;
        let open = response
            .calls
            .into_iter()
            .map(|call| (call.call, call.tool_use));
        self.open = open.collect();
        if !response.blocks.is_empty() {
            self.extend(Role::Assistant, response.blocks);
        }
    }

    fn result(&mut self, result: &ToolResult<'_>) -> Result<(), serde_json::Error> {
        let called = self
            .open
            .iter()
            .find(|(call, _)| *call == result.tool_use_id);
        let Some((call, tool_use)) = called else {
            return Ok(());
        };
        let block = Block::new(tool_use, result.content, result.is_error.unwrap_or(false));
        self.results
            .insert(*call, serde_json::value::to_raw_value(&block)?);
        if self
            .open
            .iter()
            .all(|(call, _)| self.results.contains_key(call))
        {
            self.close();
        }
        Ok(())
    }

    fn operator(&mut self, content: Vec<Box<RawValue>>) {
        if self.open.is_empty() {
            self.extend(Role::System, content);
        } else {
            self.later.extend(content);
        }
    }

    /// Answers the calls of the last response, all of them, in its order.
    fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        if !open.is_empty() {
            let mut results = std::mem::take(&mut self.results);
            let answer = |(call, tool_use): &(EventId, String)| {
                results.remove(call).or_else(|| Block::missing(tool_use))
            };
            let blocks = open.iter().filter_map(answer).collect();
            self.extend(Role::User, blocks);
        }
        let later = std::mem::take(&mut self.later);
        if !later.is_empty() {
            self.extend(Role::System, later);
        }
    }

    /// Adds blocks to the last message of that role, or begins a new one.
    ///
    /// An operator's turn stands directly before the assistant's: what the user says after it, but
    /// before an answer, goes in front.
    fn extend(&mut self, role: Role, blocks: Vec<Box<RawValue>>) {
        let behind = self
            .messages
            .iter()
            .rev()
            .take_while(|last| last.role == Role::System)
            .count();
        let skip = if role == Role::User { behind } else { 0 };
        match self.messages.iter_mut().rev().nth(skip) {
            Some(last) if last.role == role => last.content.extend(blocks),
            _ => self.messages.push(Message {
                role,
                content: blocks,
            }),
        }
    }
}

/// A `tool_result` block.
#[derive(Serialize)]
struct Block<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    tool_use_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

impl<'a> Block<'a> {
    fn new(tool_use_id: &'a str, content: Option<&'a RawValue>, is_error: bool) -> Self {
        let content = content.filter(|content| !matches!(content.get(), "[]" | "null"));
        Self {
            kind: "tool_result",
            tool_use_id,
            content,
            is_error,
        }
    }

    /// Answers a call of which the log has no result: the model must never be left without one.
    fn missing(tool_use: &'a str) -> Option<Box<RawValue>> {
        let words = r#"[{"type":"text","text":"no result of this call was recorded"}]"#;
        let content = serde_json::from_str::<&RawValue>(words).ok();
        serde_json::value::to_raw_value(&Self::new(tool_use, content, true)).ok()
    }
}
