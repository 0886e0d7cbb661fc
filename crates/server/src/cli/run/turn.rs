//! One turn as a person sees it: text as it is made, calls and results, questions, the end.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::ask::{Asked, ask};
use crate::{
    cli::{
        console::{Console, Tone},
        failure::{Exit, Failure},
        render::{self, text},
        serve::Signals,
        words::{clean, seconds},
    },
    client::{Client, Error, Follow, Frame},
};

/// A turn that is under way.
#[derive(Debug)]
pub(super) struct Turn {
    client: Client,
    session: String,
    follow: Follow,
    /// Our message; the turn is ours once it was taken in.
    message: Option<String>,
    json: bool,
    taken: bool,
    interrupted: bool,
    /// Characters of previewed text that are shown already, by event.
    shown: HashMap<String, usize>,
    /// Calls that have no result yet, by event.
    open: HashMap<String, Value>,
    /// What is waited for, in words.
    waiting: String,
    failed: bool,
    usage: Option<Value>,
}

impl Turn {
    pub(super) fn new(
        client: Client,
        session: String,
        follow: Follow,
        message: Option<String>,
        json: bool,
    ) -> Self {
        Self {
            client,
            session,
            follow,
            taken: message.is_none(),
            message,
            json,
            interrupted: false,
            shown: HashMap::new(),
            open: HashMap::new(),
            waiting: "starting".to_owned(),
            failed: false,
            usage: None,
        }
    }

    /// Follows the turn to its end.
    pub(super) async fn play(
        mut self,
        console: &mut Console,
        signals: &mut Signals,
    ) -> Result<Exit, Failure> {
        loop {
            if !self.json {
                console.wait(&self.waiting);
            }
            let frame = tokio::select! {
                frame = self.follow.next() => frame?,
                () = signals.next() => {
                    if let Some(exit) = self.interrupt(console, signals).await? {
                        return Ok(exit);
                    }
                    continue;
                }
            };
            let Some(frame) = frame else {
                return Ok(Exit::Ended);
            };
            if self.json {
                console.line(&frame.text)?;
            } else {
                self.show(&frame, console)?;
            }
            if let Some(exit) = self.follow_up(&frame, console, signals).await? {
                return Ok(exit);
            }
        }
    }

    /// Interrupts the agent; a second time leaves it to itself.
    async fn interrupt(
        &mut self,
        console: &mut Console,
        signals: &mut Signals,
    ) -> Result<Option<Exit>, Failure> {
        if self.interrupted {
            let words = format!(
                "left: `outlast sessions tail {}` shows how it ends",
                self.session
            );
            console.note(Tone::Dim, &words)?;
            return Ok(Some(Exit::Interrupted));
        }
        self.interrupted = true;
        console.note(Tone::Dim, "interrupting the agent; once more leaves")?;
        "interrupting".clone_into(&mut self.waiting);
        let events = json!([{"type": "user.interrupt"}]);
        tokio::select! {
            sent = self.send(&events) => sent?,
            () = signals.next() => return Ok(Some(Exit::Interrupted)),
        }
        Ok(None)
    }

    async fn send(&self, events: &Value) -> Result<(), Error> {
        let path = format!("/v1/sessions/{}/events", self.session);
        self.client
            .post(&path, &json!({"events": events}))
            .await
            .map(drop)
    }

    /// Shows a frame.
    fn show(&mut self, frame: &Frame, console: &mut Console) -> Result<(), Failure> {
        let event = &frame.event;
        match frame.kind.as_str() {
            "event_delta" => {
                let id = text(event, "/event_id").to_owned();
                let piece = text(event, "/delta/content/text");
                *self.shown.entry(id).or_default() += piece.chars().count();
                console.write(&clean(piece))?;
            }
            "agent.message" => {
                // What was previewed is the beginning of it.
                let done = self.shown.remove(text(event, "/id")).unwrap_or_default();
                let whole = joined(event);
                let rest: String = whole.chars().skip(done).collect();
                console.write(&clean(&rest))?;
                console.end_line()?;
            }
            // It will not come any more: nothing of it is in the log.
            "span.model_request_end" => console.end_line()?,
            _ => {
                if let Some((tone, line)) = render::live(event) {
                    console.note(tone, &line)?;
                }
            }
        }
        Ok(())
    }

    /// Does what an event asks for; returns how the run ends, if it does.
    async fn follow_up(
        &mut self,
        frame: &Frame,
        console: &mut Console,
        signals: &mut Signals,
    ) -> Result<Option<Exit>, Failure> {
        let event = &frame.event;
        let id = text(event, "/id");
        match frame.kind.as_str() {
            "user.message" => {
                let placed = event.get("processed_at").is_some_and(|at| !at.is_null());
                self.taken |= placed && self.message.as_deref() == Some(id);
            }
            "span.model_request_start" => "thinking".clone_into(&mut self.waiting),
            "agent.tool_use" | "agent.custom_tool_use" => {
                self.waiting = format!("running {}", text(event, "/name"));
                self.open.insert(id.to_owned(), event.clone());
            }
            "agent.tool_result" => {
                self.open.remove(text(event, "/tool_use_id"));
            }
            "session.status_rescheduled" => "waiting to try again".clone_into(&mut self.waiting),
            "session.status_running" => self.failed = false,
            "session.error" => {
                self.failed = text(event, "/error/retry_status/type") != "retrying";
            }
            "session.usage" => self.usage = event.get("usage").cloned(),
            "session.status_idle" if self.taken || self.interrupted => {
                return self.idle(event, console, signals).await;
            }
            "session.status_terminated" | "session.deleted" => return Ok(Some(Exit::Ended)),
            _ => {}
        }
        Ok(None)
    }

    /// Ends the run, or asks what has to be asked.
    async fn idle(
        &mut self,
        event: &Value,
        console: &mut Console,
        signals: &mut Signals,
    ) -> Result<Option<Exit>, Failure> {
        let exit = match text(event, "/stop_reason/type") {
            "requires_action" => return self.answer(event, console, signals).await,
            "end_turn" if self.interrupted => Exit::Interrupted,
            "end_turn" if !self.failed => Exit::Done,
            _ => Exit::Ended,
        };
        if !self.json {
            self.sum_up(event, exit, console).await?;
        }
        Ok(Some(exit))
    }

    /// Says how it went.
    async fn sum_up(
        &self,
        event: &Value,
        exit: Exit,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let (tone, word) = match exit {
            Exit::Done => (Tone::Dim, "done".to_owned()),
            Exit::Interrupted => (Tone::Dim, "interrupted".to_owned()),
            Exit::Ended
            | Exit::Waits
            | Exit::Failed
            | Exit::Usage
            | Exit::Less
            | Exit::Unreachable => (Tone::Wrong, format!("ended: {}", render::stop(event))),
        };
        let usage = self.usage.clone().unwrap_or_default();
        let active = usage
            .get("active_seconds")
            .and_then(Value::as_f64)
            .unwrap_or_default();
        let figures = format!("{}, {}", seconds(active), render::usage(&usage));
        console.note(tone, &format!("{word}; the session so far: {figures}"))?;
        Ok(())
    }

    /// Gets the answers that the session waits for from a person, if one is there.
    async fn answer(
        &mut self,
        event: &Value,
        console: &mut Console,
        signals: &mut Signals,
    ) -> Result<Option<Exit>, Failure> {
        let ids = event
            .pointer("/stop_reason/event_ids")
            .and_then(Value::as_array);
        let ids: Vec<_> = ids
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let calls: Vec<_> = ids
            .iter()
            .filter_map(|id| self.open.get(*id))
            .cloned()
            .collect();
        let asks = |call: &Value| text(call, "/type") == "agent.tool_use";
        let answerable = calls.len() == ids.len() && calls.iter().all(asks);
        if self.json || !console.asks() || !answerable {
            return Err(unanswered(&self.session, &ids, &calls));
        }
        match ask(&calls, console, signals).await? {
            Asked::Answers(answers) => self.send(&Value::Array(answers)).await?,
            Asked::Interrupted => return self.interrupt(console, signals).await,
            Asked::Nobody => return Err(unanswered(&self.session, &ids, &calls)),
        }
        Ok(None)
    }
}

/// Returns a message as the previews show it: its text blocks, one after the other.
fn joined(event: &Value) -> String {
    let blocks = event.get("content").and_then(Value::as_array);
    blocks
        .into_iter()
        .flatten()
        .map(|block| text(block, "/text"))
        .collect()
}

/// Says what the session waits for, and how to answer.
fn unanswered(session: &str, ids: &[&str], calls: &[Value]) -> Failure {
    let described = |id: &&str| {
        let call = calls.iter().find(|call| text(call, "/id") == *id);
        call.map_or_else(
            || (*id).to_owned(),
            |call| format!("{id}  {}", render::call(call)),
        )
    };
    let list: Vec<_> = ids
        .iter()
        .map(|id| format!("\n  {}", described(id)))
        .collect();
    let custom = calls
        .iter()
        .any(|call| text(call, "/type") == "agent.custom_tool_use");
    let how = if custom {
        format!("answer with `outlast sessions send {session} --event JSON`")
    } else {
        format!("answer with `outlast sessions send {session} --allow ID` or `--deny ID`")
    };
    Failure::say(
        Exit::Waits,
        format_args!("the session waits for an answer:{}", list.concat()),
    )
    .hint(how)
}
