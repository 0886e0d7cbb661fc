//! `outlast sessions`: look at sessions and take part in them.

mod act;
mod look;
mod tail;

use clap::{Args, Subcommand};
use outlast_protocol::id::SessionId;

use super::{
    console::Console,
    failure::{Exit, Failure},
    files,
};
use crate::client::{Client, Error};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List sessions, the newest first
    List(look::List),
    /// Show one session
    Show {
        /// The session
        id: SessionId,
        /// Print the object as it is sent
        #[arg(long)]
        json: bool,
    },
    /// List the events of a session, the oldest first
    Events(look::Events),
    /// Follow the events of a session until it is over
    Tail(tail::Tail),
    /// Send a message, an answer, or any event
    Send(act::Send),
    /// Download the files that a session's agent made
    Download {
        /// The session
        id: SessionId,
        /// Put them into this folder
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        output: std::path::PathBuf,
        /// Write over files that are there
        #[arg(long)]
        force: bool,
    },
    /// Stop what a session does; it can be gone on with
    Interrupt(One),
    /// End a session and keep its events
    Archive(One),
    /// Delete a session with all its events
    Delete {
        /// The session
        id: SessionId,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args, Debug)]
pub(super) struct One {
    /// The session
    id: SessionId,
}

pub(super) async fn run(
    command: Command,
    client: &Client,
    console: &mut Console,
) -> Result<Exit, Failure> {
    match command {
        Command::List(list) => list.run(client, console).await,
        Command::Show { id, json } => look::show(id, json, client, console).await,
        Command::Events(events) => events.run(client, console).await,
        Command::Tail(tail) => tail.run(client, console).await,
        Command::Send(send) => send.run(client, console).await,
        Command::Download { id, output, force } => {
            let found = client.get(&path(id), &[]).await;
            found.map_err(|error| explained(error, id))?;
            files::save_all(id, (&output, force), client, console).await
        }
        Command::Interrupt(One { id }) => act::interrupt(id, client, console).await,
        Command::Archive(One { id }) => act::archive(id, client, console).await,
        Command::Delete { id, yes } => act::delete(id, yes, client, console).await,
    }
}

/// Returns the path of a session.
fn path(id: SessionId) -> String {
    format!("/v1/sessions/{id}")
}

/// Adds to a refusal what would help.
fn explained(error: Error, id: SessionId) -> Failure {
    let status = error.status();
    let running = error.to_string().contains("running");
    let failure = Failure::from(error);
    match status {
        Some(404) => failure.hint("`outlast sessions list --all` shows those there are"),
        Some(400 | 409) if running => {
            failure.hint(format!("`outlast sessions interrupt {id}` stops it"))
        }
        _ => failure,
    }
}
