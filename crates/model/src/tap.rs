//! Reads what an answer says of itself while its bytes pass untouched.

use serde::Deserialize;

use crate::event::Kind;
use crate::{Event, Usage, UsageUpdate};

/// The longest line or plain answer that is looked at, in bytes.
const LONGEST: usize = 64 * 1024 * 1024;

/// How far into a line the type of its event is looked for.
const HEAD: usize = 64;

/// Listens to an answer of the Messages API.
#[derive(Clone, Debug)]
pub struct Tap {
    form: Form,
    /// The line that is not complete, or all of a plain answer.
    held: Vec<u8>,
    /// Whether what is held became too long to be looked at.
    over: bool,
    usage: Usage,
    complete: bool,
}

/// How an answer comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// As server-sent events, each with its data in one line.
    Stream,
    /// As one object.
    Plain,
}

/// What is read of an answer that comes as one object.
#[derive(Deserialize)]
struct Message {
    usage: UsageUpdate,
}

impl Tap {
    /// Listens from the first byte on.
    pub fn new(form: Form) -> Self {
        Self {
            form,
            held: Vec::new(),
            over: false,
            usage: Usage::default(),
            complete: false,
        }
    }

    /// Takes in the next bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        if self.form == Form::Stream {
            while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
                let (line, rest) = bytes.split_at(end);
                self.hold(line);
                self.line();
                bytes = rest.get(1..).unwrap_or_default();
            }
        }
        self.hold(bytes);
    }

    /// Notes that the last byte came.
    pub fn end(&mut self) {
        if self.form == Form::Plain
            && !self.over
            && let Ok(message) = serde_json::from_slice::<Message>(&self.held)
        {
            self.usage.update(&message.usage);
            self.complete = true;
        }
    }

    /// Returns what was used, as far as it was said.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Tells whether the answer said its last word.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    fn hold(&mut self, bytes: &[u8]) {
        self.over |= self.held.len().saturating_add(bytes.len()) > LONGEST;
        if !self.over {
            self.held.extend_from_slice(bytes);
        }
    }

    /// Reads a complete line.
    fn line(&mut self) {
        let event = match self.held.strip_prefix(b"data:") {
            Some(data) if !self.over && speaks_of_the_message(data) => std::str::from_utf8(data)
                .ok()
                .and_then(|data| Event::parse(data.trim()).ok()),
            Some(_) | None => None,
        };
        match event.map(|event| event.kind) {
            Some(Kind::MessageStart { usage, .. } | Kind::MessageDelta { usage, .. }) => {
                self.usage.update(&usage);
            }
            Some(Kind::MessageStop) => self.complete = true,
            Some(_) | None => {}
        }
        self.held.clear();
        self.over = false;
    }
}

/// Tells whether data may be an event of the message as a whole; most are of its blocks.
fn speaks_of_the_message(data: &[u8]) -> bool {
    let head = data.get(..HEAD).unwrap_or(data);
    head.windows(8).any(|window| window == b"message_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "event: message_start\r\n\
        data: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"m\",\"usage\":{\"input_tokens\":7}}}\r\n\r\n\
        event: content_block_delta\n\
        data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"message_stop\"}}\n\n\
        data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}}\n\n\
        data: {\"type\":\"message_stop\"}\n\n";

    #[test]
    fn a_stream_is_understood_wherever_it_is_cut() {
        for size in [1, 2, 7, 64, STREAM.len()] {
            let mut tap = Tap::new(Form::Stream);
            let half = STREAM.len() / 2;
            for (count, chunk) in STREAM.as_bytes().chunks(size).enumerate() {
                if count * size < half {
                    assert!(!tap.is_complete());
                }
                tap.feed(chunk);
            }
            tap.end();
            let usage = tap.usage();
            assert_eq!((usage.input_tokens, usage.output_tokens), (7, 5), "{size}");
            assert!(tap.is_complete());
        }
    }

    #[test]
    fn a_plain_answer_is_understood_at_its_end() {
        let body =
            br#"{"type":"message","content":[],"usage":{"input_tokens":3,"output_tokens":4}}"#;
        let mut tap = Tap::new(Form::Plain);
        for chunk in body.chunks(5) {
            tap.feed(chunk);
            assert!(!tap.is_complete());
        }
        tap.end();
        assert_eq!(
            (tap.usage().input_tokens, tap.usage().output_tokens),
            (3, 4)
        );
        assert!(tap.is_complete());
        let mut broken = Tap::new(Form::Plain);
        broken.feed(&body[..20]);
        broken.end();
        assert!(!broken.is_complete());
    }
}
