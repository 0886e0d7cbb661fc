//! One content block on its way to completion.

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Delta, Start, broken};
use crate::Error;
use crate::fields::Fields;

/// A block and what its deltas have added.
#[derive(Debug)]
pub(super) struct Growing {
    start: Start,
    raw: Box<RawValue>,
    text: String,
    input: String,
    signature: String,
    citations: Vec<Box<RawValue>>,
    others: Vec<Box<RawValue>>,
    touched: bool,
    stopped: bool,
}

impl Growing {
    /// Begins a block.
    ///
    /// # Errors
    /// If the block is no object.
    pub(super) fn new(start: &Start, raw: &RawValue) -> Result<Self, Error> {
        let fields: Fields = serde_json::from_str(raw.get())
            .map_err(|_| broken("a content block that is no object"))?;
        let key = match start {
            Start::Thinking => "thinking",
            Start::Text { .. }
            | Start::RedactedThinking
            | Start::ToolUse { .. }
            | Start::Other { .. } => "text",
        };
        Ok(Self {
            start: start.clone(),
            raw: raw.to_owned(),
            text: fields.text(key).unwrap_or_default(),
            input: String::new(),
            signature: fields.text("signature").unwrap_or_default(),
            citations: Vec::new(),
            others: Vec::new(),
            touched: false,
            stopped: false,
        })
    }

    /// Adds a delta.
    ///
    /// # Errors
    /// If text is added to thinking or the other way round: neither could be sent back.
    pub(super) fn grow(&mut self, delta: &Delta) -> Result<(), Error> {
        let thinks = matches!(self.start, Start::Thinking);
        match delta {
            Delta::Text(text) if !thinks => self.text.push_str(text),
            Delta::Thinking(text) if thinks => self.text.push_str(text),
            Delta::Text(_) | Delta::Thinking(_) => {
                return Err(broken("a delta that does not fit its block"));
            }
            Delta::Signature(text) => self.signature.push_str(text),
            Delta::InputJson(json) => self.input.push_str(json),
            Delta::Citation(citation) => self.citations.push(citation.clone()),
            Delta::Other { raw, .. } => self.others.push(raw.clone()),
        }
        self.touched = true;
        Ok(())
    }

    /// Marks the block complete.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Tells whether the block is complete.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns what the block is.
    pub(super) fn start(&self) -> &Start {
        &self.start
    }

    /// Returns the text so far.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns a tool's input and whether it is unusable.
    pub(super) fn input(&self) -> (Box<RawValue>, bool) {
        let written = if self.input.trim().is_empty() {
            let fields = serde_json::from_str::<Fields>(self.raw.get()).ok();
            let given = fields.as_ref().and_then(|fields| fields.get("input"));
            given.map(|given| given.get().to_owned())
        } else {
            Some(self.input.clone())
        };
        match written {
            Some(json) => match object(json) {
                Some(input) => (input, false),
                None => (nothing(), true),
            },
            None => (nothing(), false),
        }
    }

    /// Returns the block as it is to be sent back.
    ///
    /// A block that no delta touched keeps its bytes.
    ///
    /// # Errors
    /// If a field has no JSON form, which no block that was read can come to.
    pub(super) fn finish(self) -> Result<Box<RawValue>, Error> {
        if self.touched || matches!(self.start, Start::ToolUse { .. }) {
            self.rebuild()
                .map_err(|error| broken(&format!("a block that cannot be written: {error}")))
        } else {
            Ok(self.raw)
        }
    }

    fn rebuild(&self) -> serde_json::Result<Box<RawValue>> {
        let mut fields: Fields = serde_json::from_str(self.raw.get())?;
        match &self.start {
            Start::Text { .. } => fields.put("text", &self.text)?,
            Start::Thinking => {
                fields.put("thinking", &self.text)?;
                fields.put("signature", &self.signature)?;
            }
            Start::ToolUse { .. } => fields.set("input", self.input().0),
            Start::RedactedThinking | Start::Other { .. } => self.rebuild_other(&mut fields)?,
        }
        if !self.citations.is_empty() {
            let mut all = match fields.get("citations") {
                Some(given) => serde_json::from_str(given.get()).unwrap_or_default(),
                None => Vec::<Box<RawValue>>::new(),
            };
            all.extend(self.citations.iter().cloned());
            fields.put("citations", &all)?;
        }
        for delta in &self.others {
            merge(&mut fields, delta)?;
        }
        serde_json::value::to_raw_value(&fields)
    }

    /// Applies known deltas to a block that is not known.
    fn rebuild_other(&self, fields: &mut Fields) -> serde_json::Result<()> {
        if !self.text.is_empty() {
            fields.put("text", &self.text)?;
        }
        if !self.signature.is_empty() {
            fields.put("signature", &self.signature)?;
        }
        if !self.input.trim().is_empty() {
            fields.set("input", self.input().0);
        }
        Ok(())
    }
}

/// Applies a delta that is not known by the pattern that all known ones follow: strings grow,
/// everything else is replaced.
fn merge(fields: &mut Fields, delta: &RawValue) -> serde_json::Result<()> {
    let delta: Fields = serde_json::from_str(delta.get())?;
    for (key, value) in delta.iter().filter(|(key, _)| *key != "type") {
        match (fields.text(key), delta.text(key)) {
            (Some(old), Some(more)) => fields.put(key, &(old + &more))?,
            (Some(_) | None, Some(_) | None) => fields.set(key, value.to_owned()),
        }
    }
    Ok(())
}

/// Returns `json` if it is one object.
fn object(json: String) -> Option<Box<RawValue>> {
    let raw = RawValue::from_string(json).ok()?;
    let is_object = raw.get().starts_with('{');
    // RawValue accepts text that Value does not, such as lone surrogates; a tool could not read it.
    (is_object && serde_json::from_str::<Value>(raw.get()).is_ok()).then_some(raw)
}

/// Returns `{}`.
fn nothing() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
