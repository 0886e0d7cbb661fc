//! What a message has the model do.

use outlast_testkit::random::Seeded;
use serde_json::{Value, json};

/// The most steps before the last one.
const STEPS: u64 = 4;

/// Makes the text of a message that names itself and carries a script.
pub(crate) fn message(token: &str, chance: &Seeded) -> String {
    let steps = 1 + chance.below(STEPS);
    let mut script: Vec<_> = (0..steps).map(|_| step(chance)).collect();
    script.push(json!({ "text": format!("{token} is done: {{{{results}}}}") }));
    format!("{token}\n```script\n{}\n```", json!(script))
}

fn step(chance: &Seeded) -> Value {
    match chance.below(100) {
        0..15 => json!({ "text": "words" }),
        15..25 => json!({ "thinking": "hm", "text": "words" }),
        25..65 => json!({ "text": "I call.", "calls": calls(chance) }),
        65..72 => json!({ "content": [{ "filler": 40 }], "pace": { "tokens": 4, "ms": 20 } }),
        72..78 => json!({ "pause_ms": chance.below(2_000), "calls": calls(chance) }),
        78..88 => json!({ "text": "at last", "error": error(chance) }),
        88..92 => json!({ "text": "wait", "stop": "pause_turn" }),
        92..94 => json!({ "text": "cut", "calls": [bash(chance)], "cut": 5 }),
        94..96 => json!({ "refusal": { "category": "cyber", "explanation": "no" } }),
        96..98 => json!({ "text": "never", "error": 529 }),
        _ => json!({ "text": "never", "error": 400 }),
    }
}

/// A failure that passes.
fn error(chance: &Seeded) -> Value {
    let status = *chance.pick(&[429, 500, 529]).unwrap();
    let times = 1 + chance.below(3);
    let mut error = json!({ "status": status, "times": times });
    match chance.below(4) {
        0 => error["midway"] = json!(true),
        1 => error["drop"] = json!(true),
        2 => error["retry_after_ms"] = json!(chance.below(3_000)),
        _ => {}
    }
    error
}

fn calls(chance: &Seeded) -> Vec<Value> {
    let many = 1 + chance.below(4);
    (0..many).map(|_| call(chance)).collect()
}

fn call(chance: &Seeded) -> Value {
    match chance.below(100) {
        0..35 => bash(chance),
        35..55 => {
            json!({ "name": "read", "input": { "file_path": "f", "wait_ms": chance.below(30) } })
        }
        55..65 => {
            json!({ "name": "grep", "input": { "pattern": "p", "wait_ms": chance.below(30) } })
        }
        65..78 => json!({ "name": "write", "input": { "file_path": "f", "content": "c" } }),
        78..90 => json!({ "name": "ask_client", "input": { "question": "?" } }),
        90..94 => json!({ "name": "no_such_tool", "input": {} }),
        94..98 => output(chance),
        _ => json!({ "name": "bash", "input": { "command": "exit", "die": true } }),
    }
}

fn bash(chance: &Seeded) -> Value {
    match chance.below(100) {
        0..3 => json!({ "name": "bash", "input": { "command": "sleep", "hang": true } }),
        3..60 => json!({ "name": "bash", "input": { "command": "c" } }),
        _ => json!({ "name": "bash", "input": { "command": "c", "wait_ms": chance.below(3_000) } }),
    }
}

/// A call that leaves a file for the user.
fn output(chance: &Seeded) -> Value {
    let path = format!("/mnt/session/outputs/{}", chance.below(3));
    let bytes = vec![u8::try_from(chance.below(256)).unwrap_or(0); 3];
    json!({ "name": "bash", "input": { "Write": { "path": path, "bytes": bytes, "mode": 420 } } })
}
