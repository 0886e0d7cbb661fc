//! One process per data directory.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use super::OpenError;

/// Name of the lock file.
const NAME: &str = "lock";

/// Holds the data directory until it is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the directory, or says who has it.
    pub(super) fn take(dir: &Path) -> Result<Self, OpenError> {
        let io = |error: io::Error| OpenError::Io {
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
                return Err(OpenError::Held {
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
            matches!(&error, OpenError::Held { holder, .. } if *holder == pid),
            "{error}"
        );
        assert!(error.to_string().contains(&pid));
        drop(first);
        Lock::take(dir.path()).unwrap();
    }
}
