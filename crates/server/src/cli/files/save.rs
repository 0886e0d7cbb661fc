//! Downloads to files here: whole or not at all, over nothing that is there, and never outside of
//! the folder that was named.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use outlast_protocol::id::SessionId;
use serde_json::Value;
use tokio::{fs, io::AsyncWriteExt as _};

use super::text;
use crate::{
    cli::{
        console::{Console, Tone},
        failure::{Exit, Failure},
    },
    client::{Client, Error},
};

/// Files of one session that are looked at.
const MOST: usize = 100_000;

/// Why a file was not saved.
#[derive(Debug)]
pub(crate) enum Unsaved {
    /// The server did not give it.
    Client(Error),
    /// It cannot be written here.
    Here(Failure),
}

impl From<io::Error> for Unsaved {
    fn from(error: io::Error) -> Self {
        Self::Here(error.into())
    }
}

impl From<Unsaved> for Failure {
    fn from(unsaved: Unsaved) -> Self {
        match unsaved {
            Unsaved::Client(error) => error.into(),
            Unsaved::Here(failure) => failure,
        }
    }
}

/// Where a download goes.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    /// Written first, beside it.
    part: PathBuf,
    force: bool,
}

impl Target {
    /// Names a file that is not there, unless it may be written over.
    pub(crate) fn new(path: PathBuf, force: bool) -> Result<Self, Failure> {
        if !force && path.symlink_metadata().is_ok() {
            let words = format!("`{}` is there already", path.display());
            return Err(Failure::say(Exit::Failed, words).hint("--force writes over it"));
        }
        let mut part = path.clone().into_os_string();
        part.push(".part");
        Ok(Self {
            path,
            part: part.into(),
            force,
        })
    }

    /// Downloads a file to it; returns its path.
    pub(crate) async fn save(self, client: &Client, id: &str) -> Result<PathBuf, Unsaved> {
        let written = self.write(client, id).await;
        if written.is_err() {
            drop(fs::remove_file(&self.part).await);
        }
        written?;
        Ok(self.path)
    }

    async fn write(&self, client: &Client, id: &str) -> Result<(), Unsaved> {
        let mut options = fs::OpenOptions::new();
        // Never through a link that somebody put there.
        drop(fs::remove_file(&self.part).await);
        let mut file = options
            .write(true)
            .create_new(true)
            .open(&self.part)
            .await?;
        client
            .download(id, &mut file)
            .await
            .map_err(Unsaved::Client)?;
        file.flush().await?;
        file.sync_all().await?;
        if self.force {
            fs::rename(&self.part, &self.path).await?;
        } else {
            // Fails where something came to be there meanwhile.
            fs::hard_link(&self.part, &self.path).await?;
            fs::remove_file(&self.part).await?;
        }
        Ok(())
    }
}

/// Reads a name of the server as a path that stays below where it is put.
pub(crate) fn relative(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let whole = !name.is_empty() && !name.contains('\0') && !name.ends_with('/');
    (whole && path.components().all(plain)).then(|| path.to_owned())
}

/// Refuses folders on the way that are links: an earlier file of the same download may be none,
/// but what stands here may be.
fn is_real(dir: &Path, inside: &Path) -> bool {
    let mut at = dir.to_owned();
    let parents = inside.parent().into_iter().flat_map(Path::components);
    parents.into_iter().all(|part| {
        at.push(part);
        match at.symlink_metadata() {
            Ok(found) => found.is_dir(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    })
}

/// Downloads everything that agents of a session made.
pub(crate) async fn save_all(
    session: SessionId,
    (dir, force): (&Path, bool),
    client: &Client,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let scope = session.to_string();
    let query = [("limit", "1000"), ("scope_id", scope.as_str())];
    let files = client.list("/v1/files", &query, MOST).await?;
    let made = |file: &&Value| file.get("downloadable") == Some(&Value::Bool(true));
    let (mut saved, mut failed) = (0_usize, 0_usize);
    for file in files.iter().filter(made) {
        let name = text(file, "/filename");
        let inside = relative(name).filter(|inside| is_real(dir, inside));
        let Some(inside) = inside else {
            console.note(
                Tone::Wrong,
                &format!("skipped `{name}`: no path below a folder"),
            )?;
            failed += 1;
            continue;
        };
        let path = dir.join(&inside);
        match one(&path, force, client, text(file, "/id")).await {
            Ok(path) => {
                console.line(&path.display().to_string())?;
                saved += 1;
            }
            Err(failure) => {
                console.note(
                    Tone::Wrong,
                    &format!("skipped `{name}`: {:#}", failure.error),
                )?;
                failed += 1;
            }
        }
    }
    if failed > 0 {
        let words = format!("{failed} of {} files were not saved", failed + saved);
        return Err(Failure::say(Exit::Failed, words));
    }
    if saved == 0 {
        console.note(Tone::Dim, "the session has no files to download")?;
    }
    Ok(Exit::Done)
}

async fn one(path: &Path, force: bool, client: &Client, id: &str) -> Result<PathBuf, Failure> {
    let target = Target::new(path.to_owned(), force)?;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).await?;
    }
    Ok(target.save(client, id).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_their_folder() {
        for good in ["a", "a/b c", "-rf", "\u{1f980}\n"] {
            assert_eq!(relative(good), Some(PathBuf::from(good)));
        }
        for bad in ["", "/etc/passwd", "..", "../a", "a/../../b", "a/", "."] {
            assert_eq!(relative(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_link_on_the_way_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        std::os::unix::fs::symlink("/tmp", dir.path().join("link")).unwrap();
        for (inside, good) in [
            ("a", true),
            ("real/a", true),
            ("new/sub/a", true),
            ("link/a", false),
        ] {
            assert_eq!(is_real(dir.path(), Path::new(inside)), good, "{inside}");
        }
    }
}
