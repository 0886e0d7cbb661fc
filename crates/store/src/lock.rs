//! One process per data directory.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Name of the lock file.
const NAME: &str = "lock";

/// Why a data directory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("the data directory `{}` is held by process {holder}", dir.display())]
    Held {
        /// The directory.
        dir: PathBuf,
        /// The id of the process, as it signed the lock.
        holder: String,
    },
    /// A file or directory cannot be made or opened.
    #[error("`{}` cannot be opened: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Makes the data directory, for its owner alone.
pub(crate) fn directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Holds the data directory until it is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the directory, or says who has it.
    pub(crate) fn take(dir: &Path) -> Result<Self, LockError> {
        let io = |error: io::Error| LockError::Io {
            path: dir.join(NAME),
            error,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(dir.join(NAME))
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = holder(&mut file).unwrap_or_else(|| "unknown".to_owned());
                return Err(LockError::Held {
                    dir: dir.to_owned(),
                    holder,
                });
            }
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        sign(&mut file).map_err(io)?;
        Ok(Self { _file: file })
    }
}

/// Reads who signed the lock.
fn holder(file: &mut File) -> Option<String> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Writes this process into the lock, for those who find it taken.
fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_was_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path()).unwrap();
        let error = Lock::take(dir.path()).unwrap_err();
        let pid = std::process::id().to_string();
        assert!(
            matches!(&error, LockError::Held { holder, .. } if *holder == pid),
            "{error}"
        );
        assert!(error.to_string().contains(&pid));
        drop(first);
        Lock::take(dir.path()).unwrap();
    }
}
