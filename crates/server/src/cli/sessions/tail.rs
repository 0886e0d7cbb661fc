//! Follows a session.

use std::time::Duration;

use clap::Args;
use outlast_protocol::id::SessionId;

use super::{explained, look::line};
use crate::{
    cli::{
        console::Console,
        failure::{Exit, Failure},
        serve::Signals,
    },
    client::{Client, From, Previews},
};

/// How long a tail waits for a server that went away.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Args, Debug)]
pub(in crate::cli) struct Tail {
    /// The session
    id: SessionId,
    /// Begin behind this position of the log; 0 is its beginning
    #[arg(long, value_name = "POSITION")]
    after: Option<u64>,
    /// Print each event as it is sent, one a line
    #[arg(long)]
    json: bool,
}

impl Tail {
    pub(super) async fn run(self, client: &Client, console: &mut Console) -> Result<Exit, Failure> {
        let mut signals = Signals::new()?;
        let from = self.after.map_or(From::Now, From::After);
        let client = client.clone().patient(PATIENCE);
        let mut follow = client.follow(&self.id.to_string(), from, Previews::Hidden);
        follow
            .open()
            .await
            .map_err(|error| explained(error, self.id))?;
        loop {
            let frame = tokio::select! {
                frame = follow.next() => frame?,
                // Whoever follows a log ends it so; that is no failure.
                () = signals.next() => return Ok(Exit::Done),
            };
            let Some(frame) = frame else {
                return Ok(Exit::Done);
            };
            if self.json {
                console.line(&frame.text)?;
            } else {
                console.line(&line(&frame.event))?;
            }
            if frame.kind == "session.deleted" {
                return Ok(Exit::Done);
            }
        }
    }
}
