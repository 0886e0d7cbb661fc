//! What sessions do in a storm: each the same few things over and over, in a state of its own.

use std::time::Duration;

use serde_json::{Value, json};

use super::random::Random;

/// The file in a workspace to which each call appends its own name, once.
pub(super) const LEDGER: &str = "/workspace/ledger";

/// What names of calls begin with.
const CALL: &str = "call-";

/// The longest that a usual call runs.
const CALL_TIME: Duration = Duration::from_millis(300);

/// What a session does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    /// Talks, several messages at once.
    Chats,
    /// Runs commands, some at once.
    Calls,
    /// Asks before each command, and is allowed or denied.
    Asks,
    /// Waits for results of a client's own tool.
    Custom,
    /// Is interrupted during a long command.
    Interrupted,
    /// Runs commands, and is archived in the end.
    Archived,
    /// Does something at the start and at the end, and rests in between.
    Rests,
}

impl Role {
    /// Every role.
    pub(super) const ALL: &[Self] = &[
        Self::Chats,
        Self::Calls,
        Self::Asks,
        Self::Custom,
        Self::Interrupted,
        Self::Archived,
        Self::Rests,
    ];

    /// Returns the role of the session with this number.
    pub(super) fn of(number: usize) -> Self {
        let at = number % Self::ALL.len();
        Self::ALL.get(at).copied().unwrap_or(Self::Calls)
    }

    /// Returns the tools of its agent.
    pub(super) fn tools(self) -> Value {
        match self {
            Self::Chats => json!([]),
            Self::Asks => json!([{
                "type": "agent_toolset_20260401",
                "default_config": {"permission_policy": {"type": "always_ask"}},
            }]),
            Self::Custom => json!([{
                "type": "custom", "name": "look_up", "description": "looks something up",
                "input_schema": {"type": "object", "properties": {"what": {"type": "string"}}},
            }]),
            Self::Calls | Self::Interrupted | Self::Archived | Self::Rests => {
                json!([{"type": "agent_toolset_20260401"}])
            }
        }
    }

    /// Tells whether its sessions have a workspace with a ledger.
    pub(super) fn runs_commands(self) -> bool {
        !matches!(self, Self::Chats | Self::Custom)
    }

    /// Makes the messages of one turn; `name` tells this turn from all others.
    pub(super) fn messages(self, name: &str, random: &mut Random) -> Vec<Value> {
        match self {
            Self::Chats => {
                let count = 1 + random.below(3);
                let said = |number| {
                    let mark = format!("{name}-{number}");
                    (mark, json!([{"text": "Yes.", "pause_ms": 20 * number}]))
                };
                (0..count)
                    .map(said)
                    .map(|(mark, steps)| message(&mark, &steps))
                    .collect()
            }
            Self::Custom => {
                let call = json!({"name": "look_up", "input": {"what": name}});
                vec![message(
                    name,
                    &json!([{"calls": [call]}, {"text": "{{results}}"}]),
                )]
            }
            Self::Interrupted => {
                let steps =
                    json!([{"calls": [bash(name, 0, Duration::from_secs(20))]}, {"text": "end"}]);
                vec![message(name, &steps)]
            }
            Self::Calls | Self::Asks | Self::Archived | Self::Rests => {
                vec![message(name, &commands(name, random))]
            }
        }
    }
}

/// Makes one to three responses with one to three calls each, and an end.
fn commands(name: &str, random: &mut Random) -> Value {
    let mut number = 0;
    let mut steps = Vec::new();
    for _ in 0..=random.below(3) {
        let mut calls = Vec::new();
        for _ in 0..=random.below(3) {
            calls.push(bash(name, number, random.time(CALL_TIME)));
            number += 1;
        }
        steps.push(json!({"calls": calls, "pause_ms": random.below(40)}));
    }
    steps.push(json!({"text": "{{results}}"}));
    Value::Array(steps)
}

/// Makes a call that appends its own name to the ledger, once, and takes some time.
fn bash(name: &str, number: u32, time: Duration) -> Value {
    let (call, seconds) = (format!("{CALL}{name}-{number}"), time.as_secs_f64());
    let command = format!("echo {call} >> {LEDGER}; sleep {seconds:.3}; echo {call}");
    json!({"name": "bash", "input": {"command": command}})
}

/// Makes the message that has the ledger printed.
pub(super) fn ledger(name: &str) -> Value {
    let call =
        json!({"name": "bash", "input": {"command": format!("touch {LEDGER}; cat {LEDGER}")}});
    message(name, &json!([{"calls": [call]}, {"text": "end"}]))
}

/// Makes a message that says its name and carries a script.
fn message(name: &str, steps: &Value) -> Value {
    let text = format!("storm {name}\n```script\n{steps}\n```");
    json!({"type": "user.message", "content": [{"type": "text", "text": text}]})
}

/// Finds the name of a message in the JSON of its body.
pub(super) fn name_of_message(body: &str) -> Option<&str> {
    let (_, rest) = body.split_once("\"storm ")?;
    rest.split_once("\\n").map(|(name, _)| name)
}

/// Finds the name of a call in the JSON of its body.
pub(super) fn name_of_call(body: &str) -> Option<&str> {
    let (_, rest) = body.split_once("echo ")?;
    let (name, _) = rest.split_once(' ')?;
    name.starts_with(CALL).then_some(name)
}

/// Returns the names of calls that a ledger holds.
pub(super) fn names_of_calls(ledger: &str) -> Vec<String> {
    let lines = ledger.lines().map(str::trim);
    let names = lines.filter(|line| line.starts_with(CALL));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again() {
        let mut random = Random::new(1, "");
        for role in Role::ALL {
            let sent = role.messages("s7-3", &mut random);
            for one in &sent {
                let body = one.to_string();
                let name = name_of_message(&body).unwrap();
                assert!(name.starts_with("s7-3"), "{name}");
            }
        }
        let call = bash("s7-3", 2, Duration::from_millis(50));
        let body = json!({"name": "bash", "input": call["input"]}).to_string();
        assert_eq!(name_of_call(&body), Some("call-s7-3-2"));
        assert_eq!(name_of_call(&ledger("x").to_string()), None);
        assert_eq!(
            names_of_calls("call-a-0\nno\n call-a-1\n"),
            ["call-a-0", "call-a-1"]
        );
    }

    #[test]
    fn all_roles_are_played() {
        let played: Vec<_> = (0..Role::ALL.len()).map(Role::of).collect();
        assert_eq!(played, Role::ALL);
    }
}
