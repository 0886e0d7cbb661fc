//! From what PID 1 says to what a model reads.

use outlast_init::frame::{Answer, Data, Ended, Part};
use outlast_protocol::{
    CallResult, Outcome,
    content::{Block, Source},
};
use outlast_sandbox::Pressure;

use crate::Limits;

/// Turns an answer into a result.
pub(super) fn result(answer: Answer) -> CallResult {
    CallResult {
        content: answer.content.into_iter().map(block).collect(),
        is_error: answer.is_error,
        outcome: match answer.ended {
            Ended::Done => Outcome::Done,
            Ended::Limit => Outcome::Limit,
            Ended::Interrupted => Outcome::Interrupted,
        },
    }
}

/// Turns a part into a block.
fn block(part: Part) -> Block {
    let base64 = |Data { media_type, data }| Source::Base64 { media_type, data };
    match part {
        Part::Text(text) => Block::text(text),
        Part::Image(data) => Block::Image {
            source: base64(data),
        },
        Part::Document(data) => Block::Document {
            source: base64(data),
            title: None,
            context: None,
        },
    }
}

/// Says which limit struck, if one did.
pub(super) fn struck(before: Pressure, now: Pressure, limits: &Limits) -> Option<String> {
    if now.oom_kills > before.oom_kills {
        return Some(format!(
            "[the sandbox's memory limit of {} was reached: {} process(es) were killed]",
            size(limits.memory_bytes),
            now.oom_kills - before.oom_kills
        ));
    }
    (now.pids_refused > before.pids_refused).then(|| {
        format!(
            "[the sandbox's limit of {} processes was reached]",
            limits.pids
        )
    })
}

/// Adds to a failure which limit struck.
pub(super) fn blame(result: &mut CallResult, words: String) {
    if result.outcome == Outcome::Done {
        result.outcome = Outcome::Limit;
    }
    result.content.push(Block::text(words));
}

/// Writes a size as a person would.
fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{bytes} bytes"),
    }
}
