//! From the events of an answer to the answer.

use std::collections::{BTreeMap, HashSet};

use futures::StreamExt as _;
use serde_json::value::RawValue;

use crate::event::{Delta, Kind, Start};
use crate::{Error, Event, Events, StopReason, Usage};

mod block;

use block::Growing;

/// A complete answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// The provider's id of the message; may be empty.
    pub id: String,
    /// The model that answered; may be empty.
    pub model: String,
    /// The assistant content as it is to be sent back.
    ///
    /// Every block keeps what the model wrote, unknown ones included. Two things differ from the
    /// stream: text blocks without a visible character are left out, since the API refuses them in
    /// a request, and the input of a cut call is `{}`. May be empty; an empty answer cannot be
    /// sent back.
    pub blocks: Vec<Box<RawValue>>,
    /// The calls the model asks for, in its order.
    pub calls: Vec<ToolUse>,
    /// The texts, in order.
    pub texts: Vec<Text>,
    /// Whether the model thought, readably or not.
    pub thinking: bool,
    /// Why the answer ended.
    pub stop_reason: StopReason,
    /// The sequence that ended it, for that reason.
    pub stop_sequence: Option<String>,
    /// More about the end; for refusals it holds `category` and `explanation`.
    pub stop_details: Option<Box<RawValue>>,
    /// What it used.
    pub usage: Usage,
}

/// A call of one of the request's tools.
#[derive(Clone, Debug)]
pub struct ToolUse {
    /// Its place in [`Response::blocks`].
    pub index: usize,
    /// The model's id of the call, unique within the answer.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The input, always an object, byte for byte as the model wrote it.
    pub input: Box<RawValue>,
    /// Whether the input could not be used: cut off by `max_tokens`, or broken in another way.
    ///
    /// `input` is then `{}`. Such a call must not be run; it is answered with an error.
    pub cut: bool,
}

/// A text of the answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Text {
    /// Its place in [`Response::blocks`].
    pub index: usize,
    /// The text itself.
    pub text: String,
}

/// Puts an answer together from its events.
#[derive(Debug, Default)]
pub struct Accumulator {
    message: Option<(String, String)>,
    blocks: BTreeMap<u32, Growing>,
    end: Option<End>,
    usage: Usage,
    complete: bool,
}

#[derive(Debug)]
struct End {
    reason: StopReason,
    sequence: Option<String>,
    details: Option<Box<RawValue>>,
}

impl Accumulator {
    /// Makes an empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event in.
    ///
    /// Blocks may be interleaved and may begin in any order.
    ///
    /// # Errors
    /// A retryable error if the event cannot follow those before it. The answer is lost then.
    pub fn push(&mut self, event: &Event) -> Result<(), Error> {
        if matches!(event.kind, Kind::Ping | Kind::Other { .. }) {
            return Ok(());
        }
        if self.complete {
            return Err(broken("an event after message_stop"));
        }
        if self.message.is_none() != matches!(event.kind, Kind::MessageStart { .. }) {
            return Err(broken("no message_start at its beginning, or two of them"));
        }
        match &event.kind {
            Kind::MessageStart { id, model, usage } => {
                self.message = Some((id.clone(), model.clone()));
                self.usage.update(usage);
            }
            Kind::BlockStart { index, block, raw } => {
                let fresh = Growing::new(block, raw)?;
                if self.blocks.insert(*index, fresh).is_some() {
                    return Err(broken("a block that begins twice"));
                }
            }
            Kind::BlockDelta { index, delta } => self.open(*index)?.grow(delta)?,
            Kind::BlockStop { index } => self.open(*index)?.stop(),
            Kind::MessageDelta {
                stop_reason,
                stop_sequence,
                stop_details,
                usage,
            } => {
                self.usage.update(usage);
                if let Some(reason) = stop_reason {
                    self.end = Some(End {
                        reason: reason.clone(),
                        sequence: stop_sequence.clone(),
                        details: stop_details.clone(),
                    });
                }
            }
            Kind::MessageStop => self.complete = true,
            Kind::Ping | Kind::Other { .. } => {}
        }
        Ok(())
    }

    /// Returns what the answer has used so far: all there is to bill when it is cut short.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Returns the answer.
    ///
    /// # Errors
    /// A retryable error if the answer is not complete: no `message_stop`, or no stop reason.
    pub fn finish(self) -> Result<Response, Error> {
        let (Some((id, model)), true) = (self.message, self.complete) else {
            return Err(broken("no message_stop at its end"));
        };
        let end = self.end.ok_or_else(|| broken("no stop reason"))?;
        let mut response = Response {
            id,
            model,
            blocks: Vec::new(),
            calls: Vec::new(),
            texts: Vec::new(),
            thinking: false,
            stop_reason: end.reason,
            stop_sequence: end.sequence,
            stop_details: end.details,
            usage: self.usage,
        };
        for block in self.blocks.into_values() {
            response.add(block)?;
        }
        response.mark_unwritten();
        let mut seen = HashSet::new();
        if !response
            .calls
            .iter()
            .all(|call| seen.insert(call.id.as_str()))
        {
            return Err(broken("two calls of one id"));
        }
        Ok(response)
    }

    /// Returns the block at `index`, which must have begun and not ended.
    fn open(&mut self, index: u32) -> Result<&mut Growing, Error> {
        match self.blocks.get_mut(&index) {
            Some(block) if !block.is_stopped() => Ok(block),
            Some(_) | None => Err(broken("an event for a block that is not open")),
        }
    }
}

impl Response {
    /// Marks a last call as cut that ended before its first character: with room to spare, an
    /// empty input is one of a tool that takes none.
    fn mark_unwritten(&mut self) {
        let ran_out = matches!(
            self.stop_reason,
            StopReason::MaxTokens | StopReason::ContextWindowExceeded
        );
        if let Some(call) = self.calls.last_mut().filter(|_| ran_out) {
            call.cut |= call.index + 1 == self.blocks.len() && call.input.get() == "{}";
        }
    }

    /// Adds a block in its final form.
    fn add(&mut self, block: Growing) -> Result<(), Error> {
        let index = self.blocks.len();
        match block.start() {
            Start::Text { .. } => {
                let text = block.text().to_owned();
                if text.trim().is_empty() {
                    return Ok(());
                }
                self.texts.push(Text { index, text });
            }
            Start::Thinking | Start::RedactedThinking => self.thinking = true,
            Start::ToolUse { id, name } => {
                let (input, cut) = block.input();
                self.calls.push(ToolUse {
                    index,
                    id: id.clone(),
                    name: name.clone(),
                    input,
                    cut,
                });
            }
            Start::Other { .. } => {}
        }
        self.blocks.push(block.finish()?);
        Ok(())
    }
}

/// Collects a whole stream into the answer.
///
/// # Errors
/// The stream's own error, or a retryable one if the answer is not complete.
pub async fn collect(mut events: Events) -> Result<Response, Error> {
    let mut accumulator = Accumulator::new();
    while let Some(event) = events.next().await {
        accumulator.push(&event?)?;
    }
    accumulator.finish()
}

/// Makes the error of a stream that breaks the protocol.
fn broken(what: &str) -> Error {
    Error::failed(format!("the model's provider sent a broken stream: {what}"))
}

#[cfg(test)]
mod tests;
