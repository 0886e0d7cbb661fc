//! `outlast support-bundle`: one archive for whoever looks for a fault, without user data.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
};

use clap::Args;
use flate2::{Compression, write::GzEncoder};
use outlast_protocol::{id::SessionId, seam::Clock as _};
use serde_json::Value;
use tar::{Builder, Header};

use super::{
    check,
    console::Console,
    doctor,
    failure::{Exit, Failure},
};
use crate::{
    SystemClock,
    client::{Client, Found},
    config::{Loaded, print},
};

/// Records of each session whose outline is packed.
const RECORDS: &str = "1000";

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Sessions to look into; those that are unfinished are listed anyhow
    sessions: Vec<SessionId>,
    /// Write the archive here, a gzipped tar
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "outlast-support.tar.gz"
    )]
    output: PathBuf,
}

/// The files of a bundle: name and text.
type Parts = Vec<(String, String)>;

pub(super) async fn run(
    arguments: Arguments,
    loaded: &Loaded,
    found: Found,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let mut parts = vec![
        (
            "version.txt".to_owned(),
            format!("outlast {}\n", env!("CARGO_PKG_VERSION")),
        ),
        ("config.toml".to_owned(), config(loaded)?),
        ("host.json".to_owned(), host(loaded).await),
    ];
    match found {
        Found::Running(client) => ask(&client, &arguments.sessions, &mut parts).await,
        Found::Nobody(error) => parts.push(("unreachable.txt".to_owned(), format!("{error}\n"))),
    }
    let path = arguments.output;
    if let Err(error) = write(&path, &parts) {
        // Half an archive helps nobody. One that was there before is not touched: it was the error.
        if error.kind() != io::ErrorKind::AlreadyExists {
            drop(fs::remove_file(&path));
        }
        let words = format!("cannot write {}: {error}", path.display());
        return Err(Failure::say(Exit::Failed, words).hint("--output names another file"));
    }
    for (name, text) in &parts {
        console.line(&format!("{:>9} bytes  {name}", text.len()))?;
    }
    console.line(&path.display().to_string())?;
    Ok(Exit::Done)
}

/// Returns the configuration without its secrets.
fn config(loaded: &Loaded) -> Result<String, Failure> {
    print(&loaded.config).map_err(|error| Failure::new(Exit::Failed, error))
}

/// Returns what the host can isolate, or why that cannot be told.
async fn host(loaded: &Loaded) -> String {
    let found = check::tried(&loaded.data_dir).await;
    let text = found.and_then(|survey| serde_json::to_string(&survey).map_err(|e| e.to_string()));
    text.unwrap_or_else(|reason| Value::from(reason).to_string())
}

/// Asks the server; what it does not answer is in the bundle as the reason.
async fn ask(client: &Client, sessions: &[SessionId], parts: &mut Parts) {
    let metrics = client.text("/metrics").await;
    parts.push((
        "metrics.txt".to_owned(),
        metrics.unwrap_or_else(|error| error.to_string()),
    ));
    object(client, "server.json".to_owned(), doctor::SERVER, &[], parts).await;
    for id in sessions {
        let (name, path) = (format!("sessions/{id}.json"), doctor::path(*id));
        object(client, name, &path, &[], parts).await;
        let name = format!("sessions/{id}-outline.json");
        let path = format!("/outlast/v1/sessions/{id}/outline");
        object(client, name, &path, &[("limit", RECORDS)], parts).await;
    }
}

async fn object(
    client: &Client,
    name: String,
    path: &str,
    query: &[(&str, &str)],
    parts: &mut Parts,
) {
    let found = client.get(path, query).await;
    let text = found.map_or_else(|error| error.to_string(), |found| found.to_string());
    parts.push((name, text));
}

/// Writes the archive, for its owner alone and over nothing that is there.
fn write(path: &std::path::Path, parts: &Parts) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let mut archive = Builder::new(GzEncoder::new(file, Compression::default()));
    let at = SystemClock::new().now().0 / 1_000_000;
    for (name, text) in parts {
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(at).unwrap_or(0));
        archive.append_data(
            &mut header,
            format!("outlast-support/{name}"),
            text.as_bytes(),
        )?;
    }
    let mut file = archive.into_inner()?.finish()?;
    file.flush()?;
    file.sync_all()
}
