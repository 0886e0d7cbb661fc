//! `outlast run`: a whole session from a task to its end, as any client would have one.

mod ask;
mod files;
mod setup;
mod turn;

use std::{io::IsTerminal as _, io::Read as _, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use outlast_protocol::id::SessionId;
use serde_json::{Value, json};

use super::{
    console::{Console, Tone},
    failure::{Exit, Failure},
    serve::Signals,
    words::one_line,
};
use crate::{
    client::{Client, Error, Found, From, Previews, Where, find},
    config::{Config, Loaded, Log},
    server::Server,
    telemetry,
};
use files::Given;
use turn::Turn;

/// How long a run waits for a server that went away: long enough for a restart.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest that a server of a run alone takes to end, in seconds: a person waits for it.
const SHUTDOWN: u64 = 5;

/// Characters of a session's title.
const TITLE: usize = 80;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// What to do; `-` reads it from standard input
    task: String,
    /// Ask this model; without it the one that is configured, else the scripted one
    #[arg(long, value_name = "ID")]
    model: Option<String>,
    /// Go on with this session
    #[arg(long, value_name = "ID", conflicts_with = "model")]
    session: Option<SessionId>,
    /// Show the agent this file, read-only, and tell it where; may be given more than once
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print the session, then every event as it is sent, one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    arguments: Arguments,
    loaded: Loaded,
    place: Where,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let task = task(&arguments.task)?;
    // Taken over before anything begins: each one counts.
    let mut signals = Signals::new()?;
    let (client, server) = reach(&loaded, &place, console).await?;
    let mut given = Given::default();
    let began = tokio::select! {
        began = begin(&arguments, &task, &mut given, &loaded.config, &client, console) => began,
        () = signals.next() => Ok(None),
    };
    console.quiet();
    let has_begun = matches!(began, Ok(Some(_)));
    tokio::select! {
        cleared = given.clear(has_begun, &client, console) => cleared?,
        () = signals.next() => {}
    }
    let done = match began {
        Ok(Some(turn)) => turn.play(console, &mut signals).await,
        Ok(None) => Ok(Exit::Interrupted),
        Err(failure) => Err(failure),
    };
    console.quiet();
    if let Some(server) = server {
        // A turn that is cut off here goes on at the next start of a server on this directory.
        tokio::select! {
            _ = server.close() => {}
            () = signals.next() => {}
        }
    }
    done
}

/// Reads what to do.
fn task(said: &str) -> Result<String, Failure> {
    let mut task = said.to_owned();
    if said == "-" {
        task.clear();
        std::io::stdin().lock().read_to_string(&mut task)?;
    }
    if task.trim().is_empty() {
        return Err(Failure::say(Exit::Usage, "the task is empty"));
    }
    Ok(task)
}

/// Finds a server, or starts one in this process on the same data.
async fn reach(
    loaded: &Loaded,
    place: &Where,
    console: &mut Console,
) -> Result<(Client, Option<Server>), Failure> {
    match find(place, loaded).await? {
        Found::Running(client) => {
            console.note(Tone::Dim, &format!("server   {}", client.url()))?;
            Ok((client.patient(PATIENCE), None))
        }
        Found::Nobody(error) if matches!(place, Where::At(_)) => Err(error.into()),
        Found::Nobody(_) => {
            let server = start(loaded).await?;
            let url = server.url();
            let words = format!(
                "server   in this process, data in {}",
                loaded.data_dir.display()
            );
            console.note(Tone::Dim, &words)?;
            if !server.facts().has_sandboxes {
                let words = format!("warning: no tools: {}", server.facts().isolation);
                console.note(Tone::Wrong, &words)?;
            }
            match find(&Where::At(url), loaded).await? {
                Found::Running(client) => Ok((client.patient(PATIENCE), Some(server))),
                Found::Nobody(error) => Err(error.into()),
            }
        }
    }
}

/// Starts a server for this run alone, out of everybody's way.
async fn start(loaded: &Loaded) -> Result<Server, Failure> {
    let mut config: Config = loaded.config.clone();
    config.server.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    config.server.shutdown_seconds = config.server.shutdown_seconds.min(SHUTDOWN);
    if config.log.level == Log::default().level {
        // What happens in the session is shown anyway.
        "error".clone_into(&mut config.log.level);
    }
    let terminal = std::io::stderr().is_terminal();
    telemetry::install_log(&config.log, terminal, std::io::stderr)
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    Ok(Server::start(&config, &loaded.data_dir).await?)
}

/// Makes the session, or finds the one to go on with, and gives it the task.
async fn begin(
    arguments: &Arguments,
    task: &str,
    given: &mut Given,
    config: &Config,
    client: &Client,
    console: &mut Console,
) -> Result<Option<Turn>, Failure> {
    given.upload(&arguments.files, client, console).await?;
    let (session, from) = match arguments.session {
        Some(id) => {
            let found = client.get(&format!("/v1/sessions/{id}"), &[]).await;
            let found = found.map_err(|error| missing(error, id))?;
            given.mount(client, id).await?;
            (found, From::Now)
        }
        None => (
            create(arguments, task, given, config, client).await?,
            From::After(0),
        ),
    };
    let id = session
        .get("id")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let model = session
        .pointer("/agent/model/id")
        .and_then(Value::as_str)
        .unwrap_or_default();
    console.note(Tone::Dim, &format!("model    {}", named(model)))?;
    console.note(Tone::Dim, &format!("session  {id}"))?;
    if arguments.json {
        console.line(&session.to_string())?;
    }
    let previews = if arguments.json {
        Previews::Hidden
    } else {
        Previews::Shown
    };
    let mut follow = client.follow(&id, from, previews);
    // Connected first: nothing of the turn is missed, and its text is seen from its first word.
    follow.open().await?;
    let block = |text: &str| json!({"type": "text", "text": text});
    let mut content = vec![block(task)];
    content.extend(given.words().as_deref().map(block));
    let body = json!({"events": [{"type": "user.message", "content": content}]});
    let sent = client
        .post(&format!("/v1/sessions/{id}/events"), &body)
        .await;
    let sent = sent.map_err(|error| waits(error, &session, &id))?;
    let message = sent
        .pointer("/data/0/id")
        .and_then(Value::as_str)
        .map(str::to_owned);
    Ok(Some(Turn::new(
        client.clone(),
        id,
        follow,
        message,
        arguments.json,
    )))
}

async fn create(
    arguments: &Arguments,
    task: &str,
    given: &Given,
    config: &Config,
    client: &Client,
) -> Result<Value, Failure> {
    let model = arguments.model.as_deref().unwrap_or(&config.run.model);
    let agent = setup::agent(client, model).await?;
    let environment = setup::environment(client).await?;
    let title = one_line(task, TITLE);
    let body = json!({
        "agent": agent,
        "environment_id": environment,
        "title": title,
        "resources": given.resources(),
    });
    Ok(client.post("/v1/sessions", &body).await?)
}

/// Says what a model is, where its name does not.
fn named(model: &str) -> String {
    if model == outlast_model::Scripted::ID {
        return format!(
            "{model}: built in, plays scripts and understands nothing; --model asks a real one"
        );
    }
    model.to_owned()
}

fn missing(error: Error, id: SessionId) -> Failure {
    let unknown = error.status() == Some(404);
    let failure = Failure::from(error);
    if unknown {
        return failure.hint(format!(
            "`outlast sessions list` shows those there are, `{id}` is not"
        ));
    }
    failure
}

/// Explains the refusal of a message to a session that waits for an answer.
fn waits(error: Error, session: &Value, id: &str) -> Failure {
    let idle = session.get("status").and_then(Value::as_str) == Some("idle");
    let refused = error.status() == Some(400);
    let failure = Failure::from(error);
    if idle && refused {
        return failure.hint(format!(
            "`outlast sessions show {id}` says what it waits for"
        ));
    }
    failure
}
