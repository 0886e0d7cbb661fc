//! A server in this process or one of its own, and what it must not leave behind.

mod binary;
mod disk;
pub(crate) mod ear;
pub(crate) mod guard;
pub(crate) mod host;
pub(crate) mod leftovers;
pub(crate) mod log;
pub(crate) mod repositories;
pub(crate) mod secure;
mod server;

pub(crate) use binary::{Binary, Output, outlast, signal};
pub(crate) use disk::Disk;
pub(crate) use server::{TestServer, model};

use std::time::Duration;

use outlast_server::client::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// How long a test waits for what must come: generous, because machines are slow.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until `look` finds something.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Makes a message that is nothing but a script.
pub(crate) fn script(steps: Value) -> Value {
    message(&json!({"script": steps}).to_string())
}

/// Makes a message of the user.
pub(crate) fn message(text: &str) -> Value {
    json!({"type": "user.message", "content": [{"type": "text", "text": text}]})
}

/// Makes a step that calls `bash`.
pub(crate) fn bash(command: &str) -> Value {
    json!({"calls": [{"name": "bash", "input": {"command": command}}]})
}

/// What tests do over and over with a client.
pub(crate) trait Does {
    /// Makes an agent with the standard tools and an environment, and a session of both.
    async fn session(&self, model: &str) -> String;
    /// Makes a session of an agent with these tools.
    async fn session_with(&self, model: &str, tools: Value) -> String;
    /// Makes a session of an agent with the standard tools, and what is said beside; in an environment of
    /// its own if none is said.
    async fn session_of(&self, more: Value) -> Value;
    /// Plays one turn of one command, and returns its result.
    async fn ran(&self, session: &str, command: &str, turn: usize) -> Value;
    /// Sends events.
    async fn send(&self, session: &str, events: &[Value]) -> Vec<Value>;
    /// Returns all events so far.
    async fn events(&self, session: &str) -> Vec<Value>;
    /// Waits until the session is idle after `count` turns, and returns all events.
    async fn idle(&self, session: &str, count: usize) -> Vec<Value>;
}

impl Does for Client {
    async fn session(&self, model: &str) -> String {
        self.session_with(model, json!([{"type": "agent_toolset_20260401"}]))
            .await
    }

    async fn session_with(&self, model: &str, tools: Value) -> String {
        let agent = json!({"name": "tester", "model": model, "tools": tools});
        let agent = self.post("/v1/agents", &agent).await.unwrap();
        let place = self
            .post("/v1/environments", &json!({"name": "place"}))
            .await
            .unwrap();
        let mut body = json!({"agent": agent["id"], "environment_id": place["id"]});
        guarded(self, &mut body);
        let session = self.post("/v1/sessions", &body).await.unwrap();
        session["id"].as_str().unwrap().to_owned()
    }

    async fn session_of(&self, more: Value) -> Value {
        let tools = json!([{"type": "agent_toolset_20260401"}]);
        let agent = json!({"name": "tester", "model": "scripted", "tools": tools});
        let agent = self.post("/v1/agents", &agent).await.unwrap();
        let mut body = json!({"agent": agent["id"]});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        if body["environment_id"].is_null() {
            let place = json!({"name": "place"});
            let place = self.post("/v1/environments", &place).await.unwrap();
            body["environment_id"] = place["id"].clone();
        }
        guarded(self, &mut body);
        self.post("/v1/sessions", &body).await.unwrap()
    }

    async fn ran(&self, session: &str, command: &str, turn: usize) -> Value {
        let steps = json!([bash(command), {"text": "the end"}]);
        self.send(session, &[script(steps)]).await;
        let events = self.idle(session, turn).await;
        (*of(&events, "agent.tool_result").last().unwrap()).clone()
    }

    async fn send(&self, session: &str, events: &[Value]) -> Vec<Value> {
        let path = format!("/v1/sessions/{session}/events");
        let sent = self.post(&path, &json!({"events": events})).await.unwrap();
        sent["data"].as_array().unwrap().clone()
    }

    async fn events(&self, session: &str) -> Vec<Value> {
        let path = format!("/v1/sessions/{session}/events");
        self.list(&path, &[("limit", "1000")], usize::MAX)
            .await
            .unwrap()
    }

    async fn idle(&self, session: &str, count: usize) -> Vec<Value> {
        until(&format!("turn {count} of {session} to end"), async || {
            let events = self.events(session).await;
            let ended = of(&events, "session.status_idle").len();
            (ended >= count).then_some(events)
        })
        .await
    }
}

/// Has a session use the vault that was planted, unless it has others, and what it brings be looked for.
fn guarded(client: &Client, body: &mut Value) {
    let Some(guard) = guard::Guard::at(client.url()) else {
        return;
    };
    if let (Some(vault), Value::Null) = (guard.vault(), &body["vault_ids"]) {
        body["vault_ids"] = json!([vault]);
    }
    for resource in body["resources"].as_array().into_iter().flatten() {
        if let Some(token) = resource["authorization_token"].as_str() {
            guard.hide("a repository's token", token);
        }
    }
}

/// Returns the events of one type.
pub(crate) fn of<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events
        .iter()
        .filter(|event| event["type"] == kind)
        .collect()
}

/// Returns the text of an event's first block.
pub(crate) fn said(event: &Value) -> &str {
    event["content"][0]["text"].as_str().unwrap_or_default()
}
