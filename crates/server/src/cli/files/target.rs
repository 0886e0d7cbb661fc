//! One download: whole or not at all, and over nothing that is there unless that was asked for.

use std::{
    collections::HashMap,
    fs::{File, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use outlast_protocol::id::FileId;
use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock},
    io::Errno,
};
use tokio::{fs, io::AsyncWriteExt as _};

use crate::{
    cli::failure::{Exit, Failure},
    client::{Client, Error},
};

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

/// What this process has saved, so that nothing of it is written over.
///
/// Two names of the server may be one here: some file systems do not tell capitals from small
/// letters, or one way of writing an accent from another.
#[derive(Debug, Default)]
pub(crate) struct Saved(HashMap<(u64, u64), PathBuf>);

impl Saved {
    fn note(&mut self, path: &Path) {
        if let Ok(about) = path.symlink_metadata() {
            self.0.insert(identity(&about), path.to_owned());
        }
    }

    fn is_free(&self, about: &Metadata) -> Result<(), Failure> {
        self.0.get(&identity(about)).map_or(Ok(()), |first| {
            let words = format!("the name is that of `{}` here", first.display());
            Err(Failure::say(Exit::Failed, words))
        })
    }
}

fn identity(about: &Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

/// Where a download goes.
#[derive(Debug)]
pub(crate) struct Target {
    id: FileId,
    path: PathBuf,
    /// Written first, beside it; as short whatever the name is.
    part: PathBuf,
    force: bool,
}

impl Target {
    /// Names a file that is not there, unless it may be written over.
    pub(crate) fn new(
        id: FileId,
        path: PathBuf,
        force: bool,
        saved: &Saved,
    ) -> Result<Self, Failure> {
        match path.symlink_metadata() {
            Ok(there) => {
                saved.is_free(&there)?;
                if !force {
                    let words = format!("`{}` is there already", path.display());
                    return Err(Failure::say(Exit::Failed, words).hint("--force writes over it"));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // No name of a file here: found out before anything is sent.
            Err(error) => return Err(error.into()),
        }
        let part = path.with_file_name(format!(".{id}.part"));
        Ok(Self {
            id,
            path,
            part,
            force,
        })
    }

    /// Downloads a file to it; returns its path.
    pub(crate) async fn save(self, client: &Client, saved: &mut Saved) -> Result<PathBuf, Unsaved> {
        let part = self.open(saved).map_err(Unsaved::Here)?;
        // The lock is held by what is opened once more, until all is done.
        let written = self.write(part.try_clone()?, client).await;
        if written.is_err() {
            drop(fs::remove_file(&self.part).await);
        }
        written?;
        saved.note(&self.path);
        Ok(self.path)
    }

    /// Opens what is written first, for this process alone; what a broken download left is used again.
    fn open(&self, saved: &Saved) -> Result<File, Failure> {
        let name = self.part.display();
        let refused = |words| Failure::say(Exit::Failed, format!("`{name}`: {words}"));
        // Never through a link that somebody put there, and without waiting for a pipe's other end.
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&self.part, flags, Mode::from_raw_mode(0o666));
        let part = File::from(opened.map_err(|errno| refused(io::Error::from(errno).to_string()))?);
        match flock(&part, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                return Err(refused("another download of it is on its way".to_owned()));
            }
            locked => locked.map_err(io::Error::from)?,
        }
        let (own, there) = (part.metadata()?, self.part.symlink_metadata()?);
        saved.is_free(&own)?;
        // Whoever had it until now may have given it its place.
        if !own.is_file() || own.nlink() != 1 || identity(&own) != identity(&there) {
            return Err(refused("something else is in its place".to_owned()));
        }
        part.set_len(0)?;
        Ok(part)
    }

    async fn write(&self, part: File, client: &Client) -> Result<(), Unsaved> {
        let mut part = fs::File::from_std(part);
        let done = client.download(&self.id.to_string(), &mut part).await;
        done.map_err(Unsaved::Client)?;
        part.flush().await?;
        part.sync_all().await?;
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn target(dir: &Path, name: &str, force: bool, saved: &Saved) -> Result<Target, Failure> {
        let id = FileId::parse("file_010000000000000000000000").unwrap();
        Target::new(id, dir.join(name), force, saved)
    }

    fn words<T: std::fmt::Debug>(refused: Result<T, Failure>) -> String {
        refused.unwrap_err().error.to_string()
    }

    #[test]
    fn what_is_written_first_is_one_processs_at_a_time_and_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let saved = Saved::default();
        let long = "x".repeat(255);
        let target = target(dir.path(), &long, false, &saved).unwrap();
        fs::write(&target.part, "left by one that broke off").unwrap();
        let first = target.open(&saved).unwrap();
        assert_eq!(fs::read(&target.part).unwrap(), b"");
        assert!(words(target.open(&saved)).contains("is on its way"));
        // Its lock goes with it, and its name goes to another file.
        fs::hard_link(&target.part, &target.path).unwrap();
        drop(first);
        assert!(words(target.open(&saved)).contains("something else"));
        fs::remove_file(&target.part).unwrap();
        std::os::unix::fs::symlink("/tmp/elsewhere", &target.part).unwrap();
        target.open(&saved).unwrap_err();
    }

    #[test]
    fn nothing_that_was_saved_is_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let mut saved = Saved::default();
        let one = target(dir.path(), "one", true, &saved).unwrap();
        fs::write(&one.path, "1").unwrap();
        target(dir.path(), "one", true, &saved).unwrap();
        saved.note(&one.path);
        for force in [true, false] {
            assert!(words(target(dir.path(), "one", force, &saved)).contains("is that of"));
        }
        fs::rename(&one.path, &one.part).unwrap();
        assert!(words(one.open(&saved)).contains("is that of"));
    }
}
