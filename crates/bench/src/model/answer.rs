//! What the endpoint answers: decided by the request alone.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::sleep;

/// What marks the line of a message that the endpoint obeys.
const MARK: &str = "bench:";

/// How long a model thinks before its first token where that matters: longer than a sync.
const THOUGHT: Duration = Duration::from_millis(30);

/// How long after the first token the others come.
const TOKENS: Duration = Duration::from_millis(5);

/// What a message asks the endpoint to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ask {
    /// Answer at once in a few words.
    Say,
    /// Answer after a while, token by token.
    Talk,
    /// Say a few words after a while, then call `bash` once; talk again after the result.
    Work,
    /// Never answer.
    Hold,
    /// Call `bash`, and again after the result, so many times in all; then answer.
    Call {
        /// How many calls are still to come.
        left: usize,
    },
    /// Have `bash` leave a file of so many MiB for people; then answer.
    Make {
        /// Its size.
        mebibytes: usize,
    },
}

impl Ask {
    /// Returns the text of a message that asks for this, at least that long.
    pub(crate) fn text(self, bytes: usize) -> String {
        let word = match self {
            Self::Say => "say".to_owned(),
            Self::Talk => "talk".to_owned(),
            Self::Work => "work".to_owned(),
            Self::Hold => "hold".to_owned(),
            Self::Call { left } => format!("call {left}"),
            Self::Make { mebibytes } => format!("make {mebibytes}"),
        };
        let mut text = format!("{MARK}{word}\n");
        let missing = bytes.saturating_sub(text.len());
        text.extend(std::iter::repeat_n('x', missing));
        text
    }

    /// Reads what a request asks for.
    pub(crate) fn of(body: &[u8]) -> Result<Self> {
        let request: Value = serde_json::from_slice(body).context("the request is no JSON")?;
        let messages = request.get("messages").and_then(Value::as_array);
        let messages = messages.context("the request has no messages")?;
        let asked = messages
            .iter()
            .enumerate()
            .rev()
            .find_map(|(at, one)| Some((at, word(one)?)));
        let (at, word) = asked.context("no message says what to do")?;
        let answers = messages
            .iter()
            .skip(at)
            .filter(|one| is_from(one, "assistant"))
            .count();
        Self::parse(&word, answers).with_context(|| format!("`{word}` means nothing"))
    }

    fn parse(word: &str, answers: usize) -> Option<Self> {
        match word.split_once(' ') {
            None if word == "say" => Some(Self::Say),
            None if word == "talk" => Some(Self::Talk),
            None if word == "work" && answers > 0 => Some(Self::Talk),
            None if word == "work" => Some(Self::Work),
            None if word == "hold" => Some(Self::Hold),
            Some(("call", count)) => {
                let count: usize = count.parse().ok()?;
                Some(Self::Call {
                    left: count.saturating_sub(answers),
                })
            }
            // One call, and a word after it.
            Some(("make", _)) if answers > 0 => Some(Self::Say),
            Some(("make", size)) => Some(Self::Make {
                mebibytes: size.parse().ok()?,
            }),
            None | Some(_) => None,
        }
    }

    /// Waits as long as the model is to think.
    pub(crate) async fn wait(self) {
        match self {
            Self::Say | Self::Call { .. } | Self::Make { .. } => {}
            Self::Talk | Self::Work => sleep(THOUGHT).await,
            Self::Hold => std::future::pending().await,
        }
    }

    /// Returns the answer's bytes; the first piece ends with the first token.
    pub(crate) fn answer(self) -> impl Stream<Item = Bytes> + Send + Sync + use<> {
        let (first, rest, pause) = match self {
            Self::Say | Self::Hold => (begin() + &text(), end("end_turn"), Duration::ZERO),
            Self::Talk => (begin() + &text(), delta(" two") + &end("end_turn"), TOKENS),
            Self::Work => (
                begin() + &text(),
                stop(0) + &call_at(1, 1, "true") + &end_of(1, "tool_use"),
                TOKENS,
            ),
            Self::Call { left: 0 } => (begin() + &text(), end("end_turn"), Duration::ZERO),
            Self::Call { left } => (
                begin() + &call(left, "true"),
                end("tool_use"),
                Duration::ZERO,
            ),
            Self::Make { mebibytes } => (
                begin() + &call(mebibytes, &make(mebibytes)),
                end("tool_use"),
                Duration::ZERO,
            ),
        };
        let rest = stream::once(async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            Bytes::from(rest)
        });
        stream::iter([Bytes::from(first)]).chain(rest)
    }
}

fn is_from(message: &Value, role: &str) -> bool {
    message.get("role").is_some_and(|found| found == role)
}

/// Returns the last marked line of a message.
fn word(message: &Value) -> Option<String> {
    let blocks = message.get("content")?.as_array()?;
    let texts = blocks
        .iter()
        .rev()
        .filter_map(|block| block.get("text")?.as_str());
    let marked = texts.filter_map(|text| text.strip_prefix(MARK)).next()?;
    Some(marked.lines().next()?.to_owned())
}

fn frame(data: &Value) -> String {
    let name = data.get("type").and_then(Value::as_str).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

fn begin() -> String {
    frame(&json!({"type": "message_start", "message": {
        "id": "msg_bench", "type": "message", "role": "assistant", "model": "bench", "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": 1}}}))
}

fn block(block: &Value) -> String {
    block_at(0, block)
}

fn block_at(index: usize, block: &Value) -> String {
    frame(&json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn delta(text: &str) -> String {
    frame(&json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "text_delta", "text": text}}))
}

fn text() -> String {
    block(&json!({"type": "text", "text": ""})) + &delta("one")
}

/// Returns a command that leaves a file of so many MiB.
fn make(mebibytes: usize) -> String {
    format!(
        "mkdir -p /mnt/session/outputs && head -c {mebibytes}M /dev/urandom > /mnt/session/outputs/noise"
    )
}

fn call(number: usize, command: &str) -> String {
    call_at(0, number, command)
}

fn call_at(index: usize, number: usize, command: &str) -> String {
    let id = format!("toolu_bench{number}");
    let input = json!({"command": command}).to_string();
    let call = json!({"type": "tool_use", "id": id, "name": "bash", "input": {}});
    block_at(index, &call)
        + &frame(&json!({"type": "content_block_delta", "index": index,
            "delta": {"type": "input_json_delta", "partial_json": input}}))
}

fn end(reason: &str) -> String {
    end_of(0, reason)
}

fn end_of(index: usize, reason: &str) -> String {
    stop(index)
        + &frame(&json!({"type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": 2}}))
        + &frame(&json!({"type": "message_stop"}))
}

fn stop(index: usize) -> String {
    frame(&json!({"type": "content_block_stop", "index": index}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(messages: &Value) -> Vec<u8> {
        serde_json::to_vec(&json!({"model": "bench", "messages": messages})).unwrap()
    }

    fn says(role: &str, text: &str) -> Value {
        json!({"role": role, "content": [{"type": "text", "text": text}]})
    }

    #[test]
    fn the_newest_marked_message_is_obeyed() {
        let first = Ask::Hold.text(0);
        let messages = json!([
            says("user", &first),
            says("assistant", "one"),
            says("user", "bench:say")
        ]);
        assert_eq!(Ask::of(&request(&messages)).unwrap(), Ask::Say);
    }

    #[test]
    fn calls_are_counted_off_the_conversation() {
        let user = says("user", &Ask::Call { left: 2 }.text(0));
        let result = json!({"role": "user", "content": [{"type": "tool_result"}]});
        let once = json!([user, says("assistant", ""), result]);
        assert_eq!(Ask::of(&request(&once)).unwrap(), Ask::Call { left: 1 });
        let twice = json!([
            user,
            says("assistant", ""),
            result,
            says("assistant", ""),
            result
        ]);
        assert_eq!(Ask::of(&request(&twice)).unwrap(), Ask::Call { left: 0 });
    }

    #[test]
    fn a_file_is_made_once() {
        let user = says("user", &Ask::Make { mebibytes: 7 }.text(0));
        let made = Ask::of(&request(&json!([user]))).unwrap();
        assert_eq!(made, Ask::Make { mebibytes: 7 });
        let after = json!([user, says("assistant", "")]);
        assert_eq!(Ask::of(&request(&after)).unwrap(), Ask::Say);
    }

    #[test]
    fn what_it_does_not_understand_it_refuses() {
        assert!(Ask::of(&request(&json!([says("user", "hello")]))).is_err());
        assert!(Ask::of(&request(&json!([says("user", "bench:sing")]))).is_err());
        assert!(Ask::of(b"{").is_err());
    }

    #[test]
    fn a_message_is_as_long_as_it_was_asked_to_be() {
        assert_eq!(Ask::Say.text(1_024).len(), 1_024);
        assert_eq!(Ask::Talk.text(0), "bench:talk\n");
    }

    #[tokio::test]
    async fn an_answer_begins_with_its_first_token() {
        let pieces: Vec<_> = Ask::Talk.answer().collect().await;
        let [first, rest] = &*pieces else {
            panic!("{pieces:?}")
        };
        assert!(String::from_utf8_lossy(first).ends_with("\"text\":\"one\"}}\n\n"));
        assert!(String::from_utf8_lossy(rest).ends_with("data: {\"type\":\"message_stop\"}\n\n"));
    }
}
