//! What this host can isolate, part by part.

use std::{io, path::Path, sync::Arc};

use outlast_sandbox::{Disks, Image, Launcher, Survey, remove_tree};
use tokio::task::spawn_blocking;

use super::CONFINE;

/// Tries everything that a sandbox needs, in a folder below `dir` that is removed again.
///
/// # Errors
///
/// If nothing can be written there, or threads or memory are lacking.
pub async fn survey(dir: &Path) -> io::Result<Survey> {
    let folder = dir.join(format!("check-{}", std::process::id()));
    let made = spawn_blocking(move || {
        std::fs::create_dir(&folder)?;
        let folder = folder.canonicalize()?;
        let survey = attempt(&folder);
        remove_tree(&folder)?;
        survey
    });
    made.await.map_err(io::Error::other)?
}

fn attempt(folder: &Path) -> io::Result<Survey> {
    let launcher = Launcher::new(outlast_sandbox::Options {
        helper: Arc::new(Image::new("outlast-confine", CONFINE)?),
        shared: folder.join("shared"),
        disks: Disks::Auto,
    })?;
    launcher.survey(&folder.join("tries"))
}
