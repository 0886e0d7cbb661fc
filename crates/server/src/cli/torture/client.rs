//! The client of one session: sends, answers, waits, and remembers what it was told.

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    ear::Ear,
    random::Random,
    role::{self, Role},
    sdk::{GivenUp, Sdk},
};
use crate::client::Frame;

/// How long a turn may take before its session counts as stuck; kills and all.
const TURN: Duration = Duration::from_secs(120);

/// The longest pause between two turns.
const PAUSE: Duration = Duration::from_secs(2);

/// The longest that a client thinks before it answers.
const THOUGHT: Duration = Duration::from_millis(500);

/// Turns in which the ledger may fail to be printed.
const TRIES: u32 = 5;

/// What a client remembers: the outside view, to be compared with the log.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) session: String,
    /// The ids of events that were accepted, in order.
    pub(super) accepted: Vec<String>,
    /// Names of messages that may have been accepted: there was no answer in the end.
    pub(super) unknown: Vec<String>,
    /// Turns that came to their end.
    pub(super) turns: u64,
    /// Turns that ended in an error.
    pub(super) failed: Vec<String>,
    /// The calls that ran, as their own lines say; `None` if nobody knows.
    pub(super) ledger: Option<Vec<String>>,
    /// Whether it was archived.
    pub(super) archived: bool,
    /// What never came.
    pub(super) stuck: Option<String>,
}

/// The client of one session.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) sdk: Sdk,
    pub(super) ear: Ear,
    pub(super) role: Role,
    pub(super) number: usize,
    pub(super) random: Random,
    pub(super) notes: Notes,
    /// Denies calls now and then; not the one that prints the ledger.
    pub(super) denies: bool,
}

/// What a call printed, or why it failed.
type Said = Result<String, String>;

/// A turn did not come to its end.
#[derive(Debug)]
enum Broken {
    /// What was waited for did not come.
    Stuck(String),
    /// The session is over.
    Over,
}

impl Client {
    /// Plays until the storm is over, then to rest; returns what it was told.
    pub(super) async fn play(mut self, over: CancellationToken) -> Notes {
        let done = self.storm(&over).await;
        let done = match done {
            Ok(()) => self.end().await,
            failed => failed,
        };
        self.notes.stuck = match done {
            Ok(()) => None,
            Err(Broken::Stuck(why)) => Some(why),
            Err(Broken::Over) => Some("the session was over before its time".to_owned()),
        };
        self.notes
    }

    /// Has one command run; fails with what it said, if it could not.
    pub(super) async fn probe(mut self) -> Result<(), String> {
        match self.turn(vec![role::ledger("probe")]).await {
            Ok(Some(Ok(_))) => Ok(()),
            Ok(Some(Err(words))) => Err(words),
            Ok(None) => Err("no command was run".to_owned()),
            Err(Broken::Stuck(why)) => Err(why),
            Err(Broken::Over) => Err("the session is over".to_owned()),
        }
    }

    async fn storm(&mut self, over: &CancellationToken) -> Result<(), Broken> {
        let mut turn = 0;
        while !over.is_cancelled() {
            let name = self.name(turn);
            let messages = self.role.messages(&name, &mut self.random);
            self.turn(messages).await?;
            turn += 1;
            let pause = self.random.time(PAUSE);
            tokio::select! {
                () = over.cancelled() => {}
                () = sleep(pause), if self.role != Role::Rests => {}
            }
        }
        Ok(())
    }

    /// Has the ledger printed, and ends the session where that is its role.
    async fn end(&mut self) -> Result<(), Broken> {
        self.denies = false;
        for turn in 0..TRIES {
            let name = format!("{}-end", self.name(turn));
            if !self.role.runs_commands() {
                let messages = self.role.messages(&name, &mut self.random);
                self.turn(messages).await?;
                self.notes.ledger = Some(Vec::new());
                break;
            }
            let printed = self.turn(vec![role::ledger(&name)]).await?;
            if let Some(Ok(printed)) = printed {
                self.notes.ledger = Some(role::names_of_calls(&printed));
                break;
            }
        }
        if self.role == Role::Archived {
            let path = format!("/v1/sessions/{}/archive", self.notes.session);
            let archived = self.sdk.post(&path, &json!({}), &mut self.random).await;
            archived.map_err(|given_up| Broken::Stuck(given_up.why))?;
            self.notes.archived = true;
        }
        Ok(())
    }

    fn name(&self, turn: u32) -> String {
        format!("s{}-{turn}", self.number)
    }

    /// Sends messages and waits until the session rests; returns what its last call said.
    async fn turn(&mut self, messages: Vec<Value>) -> Result<Option<Said>, Broken> {
        let mut waiting = HashSet::new();
        for message in messages {
            waiting.extend(self.send(message).await?);
        }
        let rest = timeout(TURN, self.rest(waiting));
        match rest.await {
            Ok(rested) => rested,
            Err(_) => Err(Broken::Stuck(format!(
                "no rest within {} s",
                TURN.as_secs()
            ))),
        }
    }

    /// Sends an event; returns the ids that it was accepted under.
    async fn send(&mut self, event: Value) -> Result<Vec<String>, Broken> {
        let path = format!("/v1/sessions/{}/events", self.notes.session);
        let body = json!({"events": [event]});
        match self.sdk.post(&path, &body, &mut self.random).await {
            Ok(answer) => {
                let data = answer.get("data").and_then(Value::as_array);
                let ids = data.into_iter().flatten().filter_map(id);
                let ids: Vec<String> = ids.collect();
                self.notes.accepted.extend(ids.iter().cloned());
                Ok(ids)
            }
            Err(GivenUp { why, refused: true }) => Err(Broken::Stuck(format!("refused: {why}"))),
            Err(GivenUp { why, .. }) => {
                let name = role::name_of_message(&body.to_string()).map(str::to_owned);
                self.notes.unknown.extend(name);
                Err(Broken::Stuck(why))
            }
        }
    }

    /// Follows the session, and answers what it asks, until it rests with nothing left to do.
    async fn rest(&mut self, mut waiting: HashSet<String>) -> Result<Option<Said>, Broken> {
        let (mut printed, mut rests, mut answered) = (None, false, HashSet::new());
        loop {
            let frame = self.ear.next().await.ok_or(Broken::Over)?;
            match frame.kind.as_str() {
                "user.message" | "user.interrupt" if is_placed(&frame.event) => {
                    waiting.retain(|one| Some(one) != id(&frame.event).as_ref());
                    // A message begins more work, an interrupt of a session that rests does not.
                    rests &= frame.kind != "user.message";
                }
                "agent.tool_use" if self.role == Role::Interrupted && is_long(&frame) => {
                    sleep(self.random.time(THOUGHT)).await;
                    waiting.extend(self.send(json!({"type": "user.interrupt"})).await?);
                }
                "agent.tool_result" => printed = Some(said(&frame.event)),
                "session.error" if is_exhausted(&frame.event) => {
                    self.notes.failed.push(frame.text.clone());
                }
                "session.status_running" => rests = false,
                "session.status_idle" => {
                    let mut asked = asked(&frame.event);
                    rests = asked.is_empty();
                    asked.retain(|call| answered.insert(call.clone()));
                    self.answer(asked).await?;
                }
                _ => {}
            }
            if rests && waiting.is_empty() {
                self.notes.turns += 1;
                return Ok(printed);
            }
        }
    }

    /// Answers calls that wait for this client.
    async fn answer(&mut self, calls: Vec<String>) -> Result<(), Broken> {
        for call in calls {
            sleep(self.random.time(THOUGHT)).await;
            let event = if matches!(self.role, Role::Custom) {
                json!({
                    "type": "user.custom_tool_result", "custom_tool_use_id": call,
                    "content": [{"type": "text", "text": "found"}],
                })
            } else if self.denies && self.random.once_in(4) {
                json!({
                    "type": "user.tool_confirmation", "tool_use_id": call,
                    "result": "deny", "deny_message": "not now",
                })
            } else {
                json!({
                    "type": "user.tool_confirmation", "tool_use_id": call, "result": "allow",
                })
            };
            self.send(event).await?;
        }
        Ok(())
    }
}

fn id(event: &Value) -> Option<String> {
    event.get("id")?.as_str().map(str::to_owned)
}

/// Tells whether an input has its place in the log.
fn is_placed(event: &Value) -> bool {
    event.get("processed_at").is_some_and(Value::is_string)
}

/// Tells whether a call is one that is to be interrupted.
fn is_long(frame: &Frame) -> bool {
    role::name_of_call(&frame.text).is_some()
}

/// Returns what a call said.
fn said(result: &Value) -> Said {
    let text = result.pointer("/content/0/text").and_then(Value::as_str);
    let text = text.unwrap_or_default().to_owned();
    match result.get("is_error") {
        Some(Value::Bool(false)) => Ok(text),
        _ => Err(text),
    }
}

/// Tells whether an error ended a turn.
fn is_exhausted(event: &Value) -> bool {
    let status = event.pointer("/error/retry_status/type");
    status.and_then(Value::as_str) != Some("retrying")
}

/// Returns the calls that a session rests for.
fn asked(idle: &Value) -> Vec<String> {
    let calls = idle.pointer("/stop_reason/event_ids");
    let calls = calls.and_then(Value::as_array).into_iter().flatten();
    calls.filter_map(Value::as_str).map(str::to_owned).collect()
}
