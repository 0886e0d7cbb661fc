//! `outlast files`: what goes into sessions and comes out of them.

mod save;
mod target;

use std::{os::fd::AsFd as _, path::PathBuf};

use clap::{Args, Subcommand};
use outlast_protocol::{
    Micros,
    id::{FileId, SessionId},
    seam::Clock as _,
};
use serde_json::Value;

use super::{
    console::Console,
    failure::{Exit, Failure},
    render::text,
    table::table,
    words::{one_line, seconds},
};
use crate::{
    SystemClock,
    client::{Client, Error},
};

pub(super) use save::save_all;
use target::{Saved, Target, Unsaved};

/// Characters of a name in a table.
const NAME: usize = 80;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Upload files, and print their ids
    Upload(Upload),
    /// List files, the newest first
    List(List),
    /// Show one file
    Show {
        /// The file
        id: FileId,
    },
    /// Download a file that an agent made
    Download(Download),
    /// Delete files
    Delete {
        /// The files
        #[arg(required = true)]
        ids: Vec<FileId>,
    },
}

#[derive(Args, Debug)]
pub(super) struct Upload {
    /// The files
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Have the server remove them after so long
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(3_600..=7_776_000))]
    expires_in: Option<u64>,
    /// Print each object as it is sent, one a line
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only those of this session
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
    /// List at most so many
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: usize,
    /// Print each object as it is sent, one a line
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(super) struct Download {
    /// The file
    id: FileId,
    /// Write it here; `-` is standard output, and without it the file's own name is taken
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over a file that is there
    #[arg(long)]
    force: bool,
}

pub(super) async fn run(
    command: Command,
    client: &Client,
    console: &mut Console,
) -> Result<Exit, Failure> {
    match command {
        Command::Upload(upload) => upload.run(client, console).await,
        Command::List(list) => list.run(client, console).await,
        Command::Show { id } => {
            let found = client.get(&format!("/v1/files/{id}"), &[]).await;
            let file = found.map_err(explained)?;
            console.line(&serde_json::to_string_pretty(&file).unwrap_or_default())?;
            Ok(Exit::Done)
        }
        Command::Download(download) => download.run(client, console).await,
        Command::Delete { ids } => {
            for id in ids {
                let gone = client.delete(&format!("/v1/files/{id}")).await;
                gone.map_err(explained)?;
                console.line(&format!("deleted {id}"))?;
            }
            Ok(Exit::Done)
        }
    }
}

impl Upload {
    async fn run(self, client: &Client, console: &mut Console) -> Result<Exit, Failure> {
        for path in &self.paths {
            console.wait(&format!("uploading {}", path.display()));
            let file = client.upload(path, self.expires_in).await;
            console.quiet();
            let file = file?;
            if self.json {
                console.line(&file.to_string())?;
            } else {
                console.line(text(&file, "/id"))?;
            }
        }
        Ok(Exit::Done)
    }
}

impl List {
    async fn run(self, client: &Client, console: &mut Console) -> Result<Exit, Failure> {
        let page = self.limit.clamp(1, 1_000).to_string();
        let session = self.session.map(|id| id.to_string());
        let mut query = vec![("limit", page.as_str())];
        if let Some(session) = &session {
            query.push(("scope_id", session));
        }
        let files = client.list("/v1/files", &query, self.limit).await?;
        if self.json {
            for file in &files {
                console.line(&file.to_string())?;
            }
            return Ok(Exit::Done);
        }
        let rows: Vec<_> = files.iter().map(row).collect();
        console.write(&table(&["ID", "BYTES", "AGE", "SESSION", "NAME"], &rows))?;
        Ok(Exit::Done)
    }
}

fn row(file: &Value) -> Vec<String> {
    let at = Micros::parse(text(file, "/created_at"));
    let age = at.map(|at| seconds(SystemClock::new().now().since(at).as_secs_f64()));
    let bytes = file.get("size_bytes").and_then(Value::as_u64);
    vec![
        text(file, "/id").to_owned(),
        bytes.unwrap_or(0).to_string(),
        age.unwrap_or_default(),
        text(file, "/scope/id").to_owned(),
        one_line(text(file, "/filename"), NAME),
    ]
}

impl Download {
    async fn run(self, client: &Client, console: &mut Console) -> Result<Exit, Failure> {
        let id = self.id.to_string();
        if self
            .output
            .as_deref()
            .is_some_and(|path| path.as_os_str() == "-")
        {
            let out = std::io::stdout().as_fd().try_clone_to_owned()?;
            let mut out = tokio::fs::File::from_std(out.into());
            client.download(&id, &mut out).await.map_err(explained)?;
            tokio::io::AsyncWriteExt::flush(&mut out).await?;
            return Ok(Exit::Done);
        }
        let path = match self.output {
            Some(path) => path,
            None => {
                let found = client.get(&format!("/v1/files/{id}"), &[]).await;
                let file = found.map_err(explained)?;
                let name = text(&file, "/filename")
                    .rsplit('/')
                    .next()
                    .unwrap_or_default();
                save::relative(name).ok_or_else(|| {
                    Failure::say(Exit::Failed, "its name is no name of a file here")
                        .hint("say where to with --output")
                })?
            }
        };
        console.wait(&format!("downloading {id}"));
        let mut saved = Saved::default();
        let target = Target::new(self.id, path, self.force, &saved)?;
        let saved = target.save(client, &mut saved).await;
        console.quiet();
        console.line(&saved.map_err(explained_all)?.display().to_string())?;
        Ok(Exit::Done)
    }
}

/// Adds to a refusal what would help.
pub(super) fn explained(error: Error) -> Failure {
    let status = error.status();
    let kept = error.to_string().contains("not downloadable");
    let failure = Failure::from(error);
    match status {
        Some(404) => failure.hint("`outlast files list` shows those there are"),
        Some(400) if kept => failure.hint("the one who uploaded it has it still"),
        Some(_) | None => failure,
    }
}

fn explained_all(failure: Unsaved) -> Failure {
    match failure {
        Unsaved::Client(error) => explained(error),
        Unsaved::Here(failure) => failure,
    }
}
