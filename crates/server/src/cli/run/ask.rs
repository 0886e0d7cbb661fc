//! Asks a person whether calls may run.

use std::io;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::cli::{
    console::{Console, Tone},
    render,
    serve::Signals,
};

/// What came of asking.
#[derive(Debug)]
pub(super) enum Asked {
    /// The events that answer all calls.
    Answers(Vec<Value>),
    /// A person wants out.
    Interrupted,
    /// Nobody answers any more.
    Nobody,
}

/// Asks about each call in turn.
pub(super) async fn ask(
    calls: &[Value],
    console: &mut Console,
    signals: &mut Signals,
) -> io::Result<Asked> {
    let mut answers = Vec::new();
    for call in calls {
        console.note(Tone::Action, &format!("? {}", render::call(call)))?;
        let answer = loop {
            console.ask("may it run? [y]es, [n]o, or no with a reason:")?;
            let line = tokio::select! {
                line = line() => line,
                () = signals.next() => return Ok(Asked::Interrupted),
            };
            let Some(line) = line else {
                return Ok(Asked::Nobody);
            };
            if let Some(answer) = understood(&line, call) {
                break answer;
            }
        };
        answers.push(answer);
    }
    Ok(Asked::Answers(answers))
}

/// Reads what a person typed; `None` if it is neither yes nor no.
fn understood(line: &str, call: &Value) -> Option<Value> {
    let id = call.get("id")?;
    let allow = json!({"type": "user.tool_confirmation", "tool_use_id": id, "result": "allow"});
    let deny = json!({"type": "user.tool_confirmation", "tool_use_id": id, "result": "deny"});
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match word
        .trim_end_matches([',', ':', '.'])
        .to_lowercase()
        .as_str()
    {
        "y" | "yes" if rest.is_empty() => Some(allow),
        "n" | "no" => {
            let mut deny = deny;
            if let (false, Some(fields)) = (rest.trim().is_empty(), deny.as_object_mut()) {
                fields.insert("deny_message".to_owned(), rest.trim().into());
            }
            Some(deny)
        }
        _ => None,
    }
}

/// Reads a line; `None` at the end of input.
///
/// A thread of its own, which nothing waits for: a read of a terminal cannot be called back.
async fn line() -> Option<String> {
    let (sender, receiver) = oneshot::channel();
    let reader = std::thread::Builder::new().name("answer".to_owned());
    let started = reader.spawn(move || {
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line);
        // Nobody waits any more: the answer came too late.
        drop(sender.send(read.ok().filter(|count| *count > 0).map(|_| line)));
    });
    match started {
        Ok(_) => receiver.await.ok().flatten(),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        let call = json!({"id": "sevt_1"});
        let result = |line| {
            understood(line, &call).map(|answer| {
                let text = |key| answer.get(key).and_then(Value::as_str).map(str::to_owned);
                (text("result").unwrap(), text("deny_message"))
            })
        };
        assert_eq!(result("y\n"), Some(("allow".to_owned(), None)));
        assert_eq!(result(" YES \n"), Some(("allow".to_owned(), None)));
        assert_eq!(result("n"), Some(("deny".to_owned(), None)));
        let denied = Some(("deny".to_owned(), Some("use a copy".to_owned())));
        assert_eq!(result("no, use a copy"), denied);
        for unclear in ["", "yes but only once", "maybe", "yn", "ny"] {
            assert_eq!(result(unclear), None, "{unclear:?}");
        }
    }
}
