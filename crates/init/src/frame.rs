//! What host and init say to each other: JSON behind a length of four bytes, big-endian.

use std::io;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// The version of these frames; host and init must have the same.
pub const VERSION: u32 = 2;

/// No frame is longer; it holds the largest document `read` returns, in base64.
pub const LONGEST: usize = 64 << 20;

/// The ids that commands run under.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct User {
    /// The uid.
    pub uid: u32,
    /// The gid.
    pub gid: u32,
}

/// What init has to know before the first call.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Settings {
    /// [`VERSION`] of the host.
    pub version: u32,
    /// Whom commands run as; `None` if init's own user is theirs, which it is without root.
    pub user: Option<User>,
    /// Processes and threads of that user.
    pub pids: u32,
    /// How much output of a command is kept, in bytes.
    pub output_bytes: usize,
    /// The longest that a call may run, in milliseconds.
    pub call_ms: u64,
    /// Memory in bytes that init itself has to watch over, where no control group does.
    pub watch_memory: Option<u64>,
    /// Whether init's standard output is the door to a control group of the commands, which bounds their
    /// processes and counts what it refuses.
    pub door: bool,
    /// Whether [`FromInit::Ready`] has to bring the listener of [`outlet`](crate::outlet).
    pub outlet: bool,
    /// What commands find in their environment beside the usual. None of it hides that.
    pub variables: Vec<(String, String)>,
}

/// From the host.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToInit {
    /// The first frame.
    Hello(Settings),
    /// Runs a tool; answered by [`FromInit::Settled`] once.
    Call {
        /// Names the call; not used before.
        id: String,
        /// The tool.
        name: String,
        /// Its input, checked inside.
        input: Box<RawValue>,
    },
    /// Stops a call; it is answered all the same.
    Cancel {
        /// The call.
        id: String,
    },
}

/// From init.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FromInit {
    /// The answer to `Hello`. The descriptor of the listener travels with its first byte, if one was
    /// asked for; init has no copy.
    Ready {
        /// [`VERSION`] of init. If it is not the host's, nothing else is understood.
        version: u32,
    },
    /// The answer to `Hello` of an init that cannot do what it was asked for; it ends.
    Unfit {
        /// Why, in words.
        reason: String,
    },
    /// A call is over.
    Settled {
        /// The call.
        id: String,
        /// What it came to.
        answer: Answer,
    },
    /// A bound was reached while no call ran.
    Struck {
        /// Says which.
        words: String,
    },
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// By itself.
    Done,
    /// By a limit.
    Limit,
    /// By a `Cancel`.
    Interrupted,
}

/// What a call came to.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Answer {
    /// Never empty.
    pub content: Vec<Part>,
    /// Whether it is a failure.
    pub is_error: bool,
    /// How it ended.
    pub ended: Ended,
}

/// One part of an answer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text(String),
    /// A picture.
    Image(Data),
    /// A document.
    Document(Data),
}

/// Bytes in base64.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Data {
    /// The MIME type.
    pub media_type: String,
    /// Standard base64.
    pub data: String,
}

impl Answer {
    /// Makes a success of one text; nothing becomes `(no output)`.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(text.into(), false, Ended::Done)
    }

    /// Makes an error of one text.
    pub fn error(text: impl Into<String>) -> Self {
        Self::of(text.into(), true, Ended::Done)
    }

    /// Puts a word where there would be an empty text.
    pub(crate) fn worded(mut self) -> Self {
        for part in &mut self.content {
            if matches!(part, Part::Text(text) if text.is_empty()) {
                *part = Part::Text("(no output)".to_owned());
            }
        }
        self
    }

    /// Makes an answer of one text.
    pub fn of(text: String, is_error: bool, ended: Ended) -> Self {
        let text = if text.is_empty() {
            "(no output)".to_owned()
        } else {
            text
        };
        Self {
            content: vec![Part::Text(text)],
            is_error,
            ended,
        }
    }
}

/// Writes a message as one frame.
///
/// # Errors
///
/// If it is longer than [`LONGEST`].
pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - 4;
    match u32::try_from(length) {
        Ok(prefix) if length <= LONGEST => {
            frame.splice(..4, prefix.to_be_bytes());
            Ok(frame)
        }
        Ok(_) | Err(_) => Err(io::Error::other(format!(
            "a frame of {length} bytes is too long"
        ))),
    }
}

/// Puts frames together from whatever pieces arrive.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
}

impl Decoder {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next whole message, if there is one.
    ///
    /// # Errors
    ///
    /// If a length or a body is not a frame's; the stream cannot be used any further.
    pub fn take<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((prefix, rest)) = self.buffer.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > LONGEST {
            return Err(io::Error::other(format!(
                "a frame of {length} bytes is too long"
            )));
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(body)?;
        self.buffer.drain(..4 + length);
        // One huge frame must not keep its memory for ever.
        if self.buffer.is_empty() && self.buffer.capacity() > 1 << 20 {
            self.buffer = Vec::new();
        }
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> ToInit {
        let input = RawValue::from_string(r#"{"command": "a  b"}"#.to_owned()).unwrap();
        ToInit::Call {
            id: id.to_owned(),
            name: "bash".to_owned(),
            input,
        }
    }

    #[test]
    fn frames_survive_any_cut_and_keep_input_bytes() {
        let mut bytes = encode(&call("one")).unwrap();
        bytes.extend(encode(&call("two")).unwrap());
        for cut in 0..bytes.len() {
            let mut decoder = Decoder::default();
            let mut ids = Vec::new();
            for piece in [&bytes[..cut], &bytes[cut..]] {
                decoder.push(piece);
                while let Some(ToInit::Call { id, input, .. }) = decoder.take().unwrap() {
                    assert_eq!(input.get(), r#"{"command": "a  b"}"#);
                    ids.push(id);
                }
            }
            assert_eq!(ids, ["one", "two"]);
        }
    }

    #[test]
    fn a_false_length_is_refused_before_anything_is_kept() {
        let mut decoder = Decoder::default();
        decoder.push(&[0xff; 8]);
        assert!(decoder.take::<ToInit>().is_err());
    }

    #[test]
    fn nothing_becomes_a_word() {
        assert_eq!(
            Answer::text("").content,
            [Part::Text("(no output)".to_owned())]
        );
    }
}
