//! `outlast images`: the root file systems that environments may choose from.

use std::path::PathBuf;

use clap::Subcommand;
use outlast_hands::images::{Images, ImportError, Listed};
use tokio::task::spawn_blocking;

use super::{
    console::Console,
    failure::{Exit, Failure},
    table::table,
};
use crate::config::Loaded;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Take in a root file system (tar), an OCI layout (folder or tar) or what `docker save` wrote
    Import {
        /// What environments call it, by the metadata key `outlast.image`
        name: String,
        /// The archive or folder; gzip and zstd are unpacked
        file: PathBuf,
        /// Take it only if this is its digest
        #[arg(long, value_name = "sha256:HEX")]
        digest: Option<String>,
    },
    /// List what there is
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Take a name away, and the files with the last name of an image
    Remove {
        /// The name
        name: String,
    },
}

pub(super) async fn run(
    command: Command,
    loaded: &Loaded,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let images = Images::new(loaded.data_dir.join("images"));
    match command {
        Command::Import { name, file, digest } => {
            let done = blocking(move || images.import(&name, &file, digest.as_deref()));
            let Listed {
                name,
                digest,
                bytes,
                entries,
            } = done.await?.map_err(refused)?;
            console.line(&format!(
                "{name} is {digest}: {entries} files, {} MiB",
                bytes >> 20
            ))?;
            Ok(Exit::Done)
        }
        Command::List { json } => {
            let listed = blocking(move || images.list()).await??;
            list(&listed, json, console)
        }
        Command::Remove { name } => {
            let shown = name.clone();
            if blocking(move || images.remove(&name)).await?? {
                console.line(&format!("{shown} is removed"))?;
                return Ok(Exit::Done);
            }
            let words = format!("there is no image `{shown}`");
            Err(Failure::say(Exit::Failed, words).hint("`outlast images list` names them"))
        }
    }
}

fn list(listed: &[Listed], json: bool, console: &mut Console) -> Result<Exit, Failure> {
    if json {
        for image in listed {
            let line = serde_json::to_string(image).map_err(std::io::Error::from)?;
            console.line(&line)?;
        }
        return Ok(Exit::Done);
    }
    let row = |image: &Listed| {
        vec![
            image.name.clone(),
            image.entries.to_string(),
            format!("{} MiB", image.bytes >> 20),
            image.digest.clone(),
        ]
    };
    let rows: Vec<_> = listed.iter().map(row).collect();
    console.write(&table(&["NAME", "FILES", "SIZE", "DIGEST"], &rows))?;
    Ok(Exit::Done)
}

/// Says whose mistake it is.
fn refused(error: ImportError) -> Failure {
    let exit = match &error {
        ImportError::Name(_) => Exit::Usage,
        ImportError::Other { .. } | ImportError::Archive(_) | ImportError::File { .. } => {
            Exit::Failed
        }
    };
    Failure::new(exit, error)
}

/// Does what blocks on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    spawn_blocking(work)
        .await
        .map_err(|error| Failure::new(Exit::Failed, error))
}
