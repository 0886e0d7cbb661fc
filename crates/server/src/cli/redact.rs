//! `outlast redact`: erases what events say, through the server that runs or without one.

use clap::Args;
use outlast_kernel::{audit_alone, redact_alone};
use outlast_protocol::{
    audit::{Actor, Entry},
    id::{EventId, SessionId},
    redaction::{RedactSession, SessionRedaction},
    seam::Clock as _,
};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{
    console::{Console, Tone},
    failure::{Exit, Failure},
};
use crate::{
    SystemClock,
    client::{Error, Found, Where},
    config::Loaded,
    server,
};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The session
    session: SessionId,
    /// The events whose words go
    #[arg(required = true)]
    events: Vec<EventId>,
    /// Why; it stays in the log, so do not repeat what goes
    #[arg(long, value_name = "WORDS")]
    because: String,
    /// Print the object as it is sent
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    arguments: Arguments,
    loaded: &Loaded,
    (place, found): (Where, Found),
    console: &mut Console,
) -> Result<Exit, Failure> {
    let Arguments {
        session,
        events,
        because,
        json,
    } = arguments;
    let body = json!({ "event_ids": events, "because": because });
    // Refused in the same words whoever does it.
    let wish = RedactSession::parse(&body);
    let wish = wish.map_err(|problem| Failure::say(Exit::Usage, problem.message))?;
    let done = match (place, found) {
        (_, Found::Running(client)) => {
            let path = format!("/outlast/v1/sessions/{session}/redact");
            client.post(&path, &body).await?
        }
        (Where::Local, Found::Nobody(Error::Unreachable { .. })) => {
            alone(loaded, session, &wish).await?
        }
        (Where::Local | Where::At(_), Found::Nobody(error)) => return Err(error.into()),
    };
    if json {
        console.line(&done.to_string())?;
    } else {
        console.line(&words(&done)?)?;
    }
    console.note(Tone::Plain, LEFT)?;
    Ok(Exit::Done)
}

/// What a redaction does not reach.
const LEFT: &str = "backups, replicas, exports, workspaces of sandboxes and uploaded files may still \
                    have it: docs/cli.md";

/// Does it under the lock of the data directory.
async fn alone(
    loaded: &Loaded,
    session: SessionId,
    wish: &RedactSession,
) -> Result<Value, Failure> {
    let (database, blobs) = server::open_alone(&loaded.config, &loaded.data_dir).await?;
    let store = database.store();
    let entry = Entry::new(SystemClock::new().now(), Actor::Cli, "sessions.redact").of(session);
    let done = match audit_alone(&*store, entry).await {
        Ok(()) => redact_alone(&*store, &*blobs, session, wish).await,
        Err(problem) => Err(problem),
    };
    drop(store);
    database.close().await;
    let done = done.map_err(|problem| Failure::say(Exit::Failed, problem.message))?;
    serde_json::to_value(done).map_err(|error| Failure::new(Exit::Failed, error))
}

fn words(done: &Value) -> Result<String, Failure> {
    let done = SessionRedaction::deserialize(done);
    let done = done.map_err(|error| Failure::new(Exit::Failed, error))?;
    let (session, positions) = (done.session_id, &done.positions);
    if positions.is_empty() {
        return Ok(format!("{session}  all was erased before"));
    }
    let positions: Vec<String> = positions.iter().map(u64::to_string).collect();
    Ok(format!("{session}  erased at {}", positions.join(", ")))
}
