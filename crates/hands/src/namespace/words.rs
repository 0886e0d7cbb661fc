//! From what PID 1 says to what a model reads.

use std::time::Duration;

use outlast_init::{
    frame::{Answer, Data, Ended, Part},
    words::{memory, processes, size},
};
use outlast_protocol::{
    CallResult, Outcome,
    content::{Block, Source},
};
use outlast_sandbox::{Pressure, Room};

use super::usage::Use;
use crate::Limits;

/// What mends files that do not fit into the disk of a sandbox.
pub(super) const RAISE: &str =
    "an operator can raise `hands.disk_mib` and `hands.inodes`; the files stay until then";

/// With less than this a disk is full.
const ALMOST_NOTHING: u64 = 64 << 10;

/// Being held back for less is not worth a word.
const NOTABLE: Duration = Duration::from_secs(1);

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
        let killed = now.oom_kills - before.oom_kills;
        return Some(memory(limits.memory_bytes, killed));
    }
    (now.pids_refused > before.pids_refused).then(|| processes(limits.pids))
}

/// Says that a bound struck while no call ran.
pub(super) fn earlier(words: &str) -> String {
    format!("[before this call, {}]", bare(words))
}

/// Says which bound of a disk of its own was reached, if one was.
pub(super) fn full(room: Room, limits: &Limits) -> Option<String> {
    if room.inodes == 0 {
        return Some(format!(
            "[the sandbox's limit of {} files was reached: remove some before making more]",
            limits.inodes
        ));
    }
    (room.bytes < ALMOST_NOTHING).then(|| {
        format!(
            "[the sandbox's disk limit of {} was reached: remove files before writing more]",
            size(limits.disk_bytes)
        )
    })
}

/// Says which bound what was measured is beyond, if one, and by how much.
pub(super) fn beyond(used: Use, limits: &Limits) -> Option<String> {
    if used.inodes == u64::MAX {
        let words = "folders in the sandbox are nested too deeply to be measured";
        return Some(words.to_owned());
    }
    if used.inodes > limits.inodes {
        return Some(format!(
            "the sandbox's limit of {} files was passed: it has {}",
            limits.inodes, used.inodes
        ));
    }
    (used.bytes > limits.disk_bytes).then(|| {
        format!(
            "the sandbox's disk limit of {} was passed: it holds {}",
            size(limits.disk_bytes),
            size(used.bytes)
        )
    })
}

/// Says what comes of it that a bound was passed.
pub(super) fn passed(beyond: &str, comes: &str) -> String {
    format!("[{beyond}; {comes}; remove files before writing more]")
}

/// Takes words out of the brackets that set them apart in a result.
pub(super) fn bare(words: &str) -> &str {
    words.trim_start_matches('[').trim_end_matches(']')
}

/// Says that something is beyond the bounds of a disk of its own.
pub(super) fn more_than(limits: &Limits) -> String {
    format!(
        "need more than the {} and {} files that a sandbox may have",
        size(limits.disk_bytes),
        limits.inodes
    )
}

/// Says how long a call that ran out of time was held back, if it was.
pub(super) fn held_back(before: Pressure, now: Pressure, limits: &Limits) -> Option<String> {
    let held = now.held_back.saturating_sub(before.held_back);
    (held >= NOTABLE).then(|| {
        format!(
            "[the sandbox's limit of {} processors held it back for {:.1} s in all]",
            f64::from(limits.cpu_millis) / 1e3,
            held.as_secs_f64()
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
