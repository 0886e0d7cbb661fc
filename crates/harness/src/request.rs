//! The body of a Messages request, written so that its beginning never changes a byte.

use std::fmt::Write as _;

use outlast_model::facts::{ModelFacts, Thinking};
use outlast_protocol::agent::{Model, Speed};
use serde_json::value::RawValue;

#[cfg(test)]
mod tests;

use crate::{
    context::{Message, Role},
    prefix::Prefix,
};

/// User messages from the end that carry a cache breakpoint, beside system and tools.
const MARKED: usize = 2;

/// Where the provider's cache may end a prefix.
const BREAKPOINT: &str = r#","cache_control":{"type":"ephemeral"}}"#;

/// The least budget of the old thinking form.
const BUDGET: u64 = 1_024;

/// Writes the request.
///
/// The order of fields is fixed and what varies by turn comes last, so that two requests of a
/// conversation share all bytes up to the older one's last messages, breakpoints apart.
pub(crate) fn body(
    model: &Model,
    facts: &ModelFacts,
    prefix: &Prefix,
    messages: &[Message],
) -> Option<Box<RawValue>> {
    let mut out = String::with_capacity(4_096);
    // Writing to a string never fails.
    let _ = write!(
        out,
        r#"{{"model":{}"#,
        serde_json::to_string(&model.id).ok()?
    );
    let _ = write!(out, r#","max_tokens":{}"#, facts.max_output);
    options(&mut out, model, facts);
    if !prefix.tools.is_empty() {
        out.push_str(r#","tools":"#);
        list(&mut out, &prefix.tools, true);
    }
    if !prefix.system.is_empty() {
        out.push_str(r#","system":"#);
        list(&mut out, &prefix.system, true);
    }
    out.push_str(r#","messages":["#);
    conversation(&mut out, messages);
    out.push_str(r#"],"stream":true}"#);
    RawValue::from_string(out).ok()
}

/// Writes what the agent asks of the model beside the conversation.
fn options(out: &mut String, model: &Model, facts: &ModelFacts) {
    match facts.thinking {
        Thinking::None => {}
        Thinking::Adaptive | Thinking::Always => {
            out.push_str(r#","thinking":{"type":"adaptive"}"#);
        }
        Thinking::Budget => {
            let budget = (facts.max_output / 2).max(BUDGET);
            let _ = write!(
                out,
                r#","thinking":{{"type":"enabled","budget_tokens":{budget}}}"#
            );
        }
    }
    if !facts.efforts.is_empty() {
        let _ = write!(
            out,
            r#","output_config":{{"effort":"{}"}}"#,
            model.effort.as_str()
        );
    }
    if model.speed == Speed::Fast {
        out.push_str(r#","speed":"fast""#);
    }
    if let Some(geo) = model.inference_geo {
        let _ = write!(out, r#","inference_geo":"{}""#, geo.as_str());
    }
}

fn conversation(out: &mut String, messages: &[Message]) {
    let user = |(_, message): &(usize, &Message)| message.role == Role::User;
    let users = messages
        .iter()
        .enumerate()
        .filter(user)
        .map(|(index, _)| index);
    let marked: Vec<_> = users.rev().take(MARKED).collect();
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        };
        let _ = write!(out, r#"{{"role":"{role}","content":"#);
        list(out, &message.content, marked.contains(&index));
        out.push('}');
    }
}

/// Writes blocks as they are; the last one ends a cacheable prefix if `mark` says so.
fn list(out: &mut String, blocks: &[Box<RawValue>], mark: bool) {
    out.push('[');
    for (index, block) in blocks.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        let text = block.get();
        match text.strip_suffix('}') {
            Some(open) if mark && index + 1 == blocks.len() => {
                out.push_str(open);
                out.push_str(BREAKPOINT);
            }
            _ => out.push_str(text),
        }
    }
    out.push(']');
}
