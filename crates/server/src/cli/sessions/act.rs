//! Takes part in a session.

use std::io::Read as _;

use clap::Args;
use outlast_protocol::id::{EventId, SessionId};
use serde_json::{Value, json};

use super::{explained, path};
use crate::{
    cli::{
        console::Console,
        failure::{Exit, Failure},
        render::text,
    },
    client::Client,
};

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub(in crate::cli) struct Send {
    /// The session
    id: SessionId,
    /// A message; `-` reads it from standard input
    #[arg(group = "what")]
    message: Option<String>,
    /// Let this call run; can be given again
    #[arg(long, value_name = "CALL", group = "what")]
    allow: Vec<EventId>,
    /// Do not let this call run; can be given again
    #[arg(long, value_name = "CALL", group = "what")]
    deny: Vec<EventId>,
    /// Tell the agent why, with --deny
    #[arg(long, value_name = "TEXT", requires = "deny")]
    because: Option<String>,
    /// Send this event, as JSON; can be given again
    #[arg(long, value_name = "JSON", group = "what")]
    event: Vec<String>,
    /// Print the accepted events as they are sent, one a line
    #[arg(long)]
    json: bool,
}

impl Send {
    pub(super) async fn run(self, client: &Client, console: &mut Console) -> Result<Exit, Failure> {
        let (id, json) = (self.id, self.json);
        let body = json!({"events": self.events()?});
        let sent = client.post(&format!("{}/events", path(id)), &body).await;
        let sent = sent.map_err(|error| explained(error, id))?;
        let accepted = sent.get("data").and_then(Value::as_array);
        for event in accepted.into_iter().flatten() {
            if json {
                console.line(&event.to_string())?;
            } else {
                console.line(&format!("{}  {}", text(event, "/id"), text(event, "/type")))?;
            }
        }
        Ok(Exit::Done)
    }

    /// Returns the events in the order in which they make sense: answers, then messages.
    fn events(self) -> Result<Vec<Value>, Failure> {
        let mut events = Vec::new();
        for call in self.allow {
            let allow =
                json!({"type": "user.tool_confirmation", "tool_use_id": call, "result": "allow"});
            events.push(allow);
        }
        for call in self.deny {
            let mut deny =
                json!({"type": "user.tool_confirmation", "tool_use_id": call, "result": "deny"});
            if let (Some(why), Some(fields)) = (&self.because, deny.as_object_mut()) {
                fields.insert("deny_message".to_owned(), why.as_str().into());
            }
            events.push(deny);
        }
        for event in self.event {
            let parsed = serde_json::from_str(&event);
            events.push(parsed.map_err(|error| {
                Failure::say(Exit::Usage, format_args!("--event is no JSON: {error}"))
            })?);
        }
        if let Some(mut message) = self.message {
            if message == "-" {
                message.clear();
                std::io::stdin().lock().read_to_string(&mut message)?;
            }
            let content = json!([{"type": "text", "text": message}]);
            events.push(json!({"type": "user.message", "content": content}));
        }
        Ok(events)
    }
}

pub(super) async fn interrupt(
    id: SessionId,
    client: &Client,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let body = json!({"events": [{"type": "user.interrupt"}]});
    let sent = client.post(&format!("{}/events", path(id)), &body).await;
    sent.map_err(|error| explained(error, id))?;
    console.line(&format!("interrupted {id}"))?;
    Ok(Exit::Done)
}

pub(super) async fn archive(
    id: SessionId,
    client: &Client,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let done = client
        .post(&format!("{}/archive", path(id)), &json!({}))
        .await;
    done.map_err(|error| explained(error, id))?;
    console.line(&format!("archived {id}"))?;
    Ok(Exit::Done)
}

pub(super) async fn delete(
    id: SessionId,
    yes: bool,
    client: &Client,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let question = format!("delete {id} with all its events?");
    console.confirm(yes, "deleting cannot be undone", &question)?;
    client
        .delete(&path(id))
        .await
        .map_err(|error| explained(error, id))?;
    console.line(&format!("deleted {id}"))?;
    Ok(Exit::Done)
}
