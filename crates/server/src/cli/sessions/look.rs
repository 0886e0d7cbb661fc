//! Reads sessions and their events.

use clap::{Args, ValueEnum};
use outlast_protocol::{Micros, id::SessionId, seam::Clock as _};
use serde_json::Value;

use super::{explained, path};
use crate::{
    SystemClock,
    cli::{
        console::Console,
        failure::{Exit, Failure},
        render::{self, text},
        table::table,
        words::{clean, one_line, seconds},
    },
    client::Client,
};

/// Characters of a title in a table.
const TITLE: usize = 60;

/// What a session does.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    /// It waits for input
    Idle,
    /// It works
    Running,
    /// It will try again by itself
    Rescheduling,
    /// It is over
    Terminated,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct List {
    /// Only sessions that stand so; can be given again
    #[arg(long, value_name = "STATUS")]
    status: Vec<Status>,
    /// List archived sessions too
    #[arg(long)]
    all: bool,
    /// List at most so many
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: usize,
    /// Print each object as it is sent, one a line
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self, client: &Client, console: &mut Console) -> Result<Exit, Failure> {
        let page = self.limit.clamp(1, 1_000).to_string();
        let mut query = vec![("limit", page.as_str())];
        if self.all {
            query.push(("include_archived", "true"));
        }
        query.extend(self.status.iter().map(|status| {
            let word = match status {
                Status::Idle => "idle",
                Status::Running => "running",
                Status::Rescheduling => "rescheduling",
                Status::Terminated => "terminated",
            };
            ("statuses[]", word)
        }));
        let sessions = client.list("/v1/sessions", &query, self.limit).await?;
        if self.json {
            for session in &sessions {
                console.line(&session.to_string())?;
            }
            return Ok(Exit::Done);
        }
        let rows: Vec<_> = sessions.iter().map(row).collect();
        console.write(&table(&["ID", "STATUS", "AGE", "MODEL", "TITLE"], &rows))?;
        Ok(Exit::Done)
    }
}

fn row(session: &Value) -> Vec<String> {
    let archived = session.get("archived_at").is_some_and(|at| !at.is_null());
    let status = if archived {
        "archived"
    } else {
        text(session, "/status")
    };
    vec![
        text(session, "/id").to_owned(),
        status.to_owned(),
        age(session),
        one_line(text(session, "/agent/model/id"), TITLE),
        one_line(text(session, "/title"), TITLE),
    ]
}

fn age(session: &Value) -> String {
    let at = Micros::parse(text(session, "/created_at"));
    at.map(|at| seconds(SystemClock::new().now().since(at).as_secs_f64()))
        .unwrap_or_default()
}

pub(super) async fn show(
    id: SessionId,
    json: bool,
    client: &Client,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let session = client
        .get(&path(id), &[])
        .await
        .map_err(|error| explained(error, id))?;
    if json {
        console.line(&session.to_string())?;
        return Ok(Exit::Done);
    }
    let usage = session.get("usage").cloned().unwrap_or_default();
    let active = session
        .pointer("/stats/active_seconds")
        .and_then(Value::as_f64);
    let mut lines = vec![
        ("session", text(&session, "/id").to_owned()),
        ("title", one_line(text(&session, "/title"), 1_000)),
        ("status", text(&session, "/status").to_owned()),
        (
            "agent",
            one_line(
                &format!(
                    "{} ({})",
                    text(&session, "/agent/name"),
                    text(&session, "/agent/id")
                ),
                1_000,
            ),
        ),
        ("model", text(&session, "/agent/model/id").to_owned()),
        ("created", text(&session, "/created_at").to_owned()),
        ("archived", text(&session, "/archived_at").to_owned()),
        ("running", seconds(active.unwrap_or_default())),
        ("used", render::usage(&usage)),
    ];
    if text(&session, "/status") == "idle" {
        lines.push(("waits for", waits(id, client).await?));
    }
    for (name, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        console.line(&format!("{name:<10} {}", clean(value)))?;
    }
    Ok(Exit::Done)
}

/// Says what an idle session waits for.
async fn waits(id: SessionId, client: &Client) -> Result<String, Failure> {
    let query = [
        ("order", "desc"),
        ("limit", "1"),
        ("types[]", "session.status_idle"),
    ];
    let found = client
        .list(&format!("{}/events", path(id)), &query, 1)
        .await?;
    let Some(idle) = found.first() else {
        return Ok("a message".to_owned());
    };
    Ok(match text(idle, "/stop_reason/type") {
        "requires_action" => format!("an answer to its calls ({})", render::stop(idle)),
        reason => format!("a message (it ended with {reason})"),
    })
}

#[derive(Args, Debug)]
pub(in crate::cli) struct Events {
    /// The session
    id: SessionId,
    /// Only events of this type, such as agent.message; can be given again
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// The newest first
    #[arg(long)]
    reverse: bool,
    /// List at most so many
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    limit: usize,
    /// Print each event as it is sent, one a line
    #[arg(long)]
    json: bool,
}

impl Events {
    pub(super) async fn run(self, client: &Client, console: &mut Console) -> Result<Exit, Failure> {
        let page = self.limit.clamp(1, 1_000).to_string();
        let order = if self.reverse { "desc" } else { "asc" };
        let mut query = vec![("limit", page.as_str()), ("order", order)];
        query.extend(self.types.iter().map(|kind| ("types[]", kind.as_str())));
        let events = client
            .list(&format!("{}/events", path(self.id)), &query, self.limit)
            .await;
        for event in events.map_err(|error| explained(error, self.id))? {
            if self.json {
                console.line(&event.to_string())?;
            } else {
                console.line(&line(&event))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// Describes an event with its time and type.
pub(super) fn line(event: &Value) -> String {
    let at = text(event, "/processed_at");
    // The day and the last digits matter less than what happened.
    let at = at.get(11..23).unwrap_or("queued");
    let line = format!(
        "{at:<12} {:<29} {}",
        text(event, "/type"),
        render::summary(event)
    );
    clean(line.trim_end())
}
