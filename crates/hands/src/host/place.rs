//! Where a host is: a lock and a socket beside each other in the data directory.

use std::{
    fs::{self, File, OpenOptions, Permissions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixStream},
    time::{Instant, sleep},
};

use super::VERSION;

/// The longest path that every system takes as the address of a socket.
const LONGEST: usize = 100;

/// How long a lock may seem taken because somebody looks at it.
const LOOK: Duration = Duration::from_secs(2);

/// The place of one host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    dir: PathBuf,
    stem: String,
}

/// A host is there already.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// By this process.
    #[error("process `{holder}` has the sandboxes of `{}`", dir.display())]
    Held {
        /// The data directory.
        dir: PathBuf,
        /// The process id, as it stands in the lock.
        holder: String,
    },
    /// The lock cannot be taken for another reason.
    #[error("`{}`: {error}", path.display())]
    Io {
        /// The lock.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// The right to make hands in a data directory; free when it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    place: Place,
    _file: File,
}

impl Place {
    /// The usual place in a data directory.
    pub fn usual(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            stem: "hand-host".to_owned(),
        }
    }

    /// The place of a host of this version, beside one of another version in the usual place.
    pub fn beside(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            stem: format!("hand-host-v{VERSION}"),
        }
    }

    /// Returns the data directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the name that lock and socket begin with.
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// Finds a place in its directory by the name that lock and socket begin with.
    pub fn named(dir: &Path, stem: &str) -> Option<Self> {
        let places = [Self::usual(dir), Self::beside(dir)];
        places.into_iter().find(|place| place.stem == stem)
    }

    fn lock_path(&self) -> PathBuf {
        self.dir.join(format!("{}.lock", self.stem))
    }

    /// Returns where the socket is.
    pub fn socket(&self) -> PathBuf {
        self.dir.join(format!("{}.sock", self.stem))
    }

    /// Returns where listeners of ways out are handed over.
    fn outlets(&self) -> PathBuf {
        self.dir.join(format!("{}.outlets.sock", self.stem))
    }

    /// Tells whether a process has the lock; it is free as soon as that process has ended.
    ///
    /// # Errors
    ///
    /// If the lock cannot be looked at; nothing is known then.
    pub fn is_held(&self) -> io::Result<bool> {
        let file = match File::open(self.lock_path()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        // Shared, so that many can look at once; whoever takes it tries again for a while.
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns the id of the process that signed the lock last.
    pub fn holder(&self) -> Option<String> {
        let file = File::open(self.lock_path()).ok()?;
        let mut text = String::new();
        file.take(32).read_to_string(&mut text).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Takes the lock and signs it with the id of this process.
    ///
    /// # Errors
    ///
    /// Names the process that has it.
    pub async fn take(&self) -> Result<Lock, TakeError> {
        let io = |error| TakeError::Io {
            path: self.lock_path(),
            error,
        };
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.lock_path())
            .map_err(io)?;
        let until = Instant::now() + LOOK;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    sleep(Duration::from_millis(20)).await;
                }
                Err(TryLockError::WouldBlock) => {
                    let holder = self.holder().unwrap_or_else(|| "unknown".to_owned());
                    return Err(TakeError::Held {
                        dir: self.dir.clone(),
                        holder,
                    });
                }
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
        }
        let signed = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        signed.map_err(io)?;
        Ok(Lock {
            place: self.clone(),
            _file: file,
        })
    }

    /// Connects to the host, which must be of this user.
    pub(super) async fn connect(&self) -> io::Result<UnixStream> {
        connect(&self.socket()).await
    }

    /// Connects to where it hands over listeners of ways out.
    pub(super) async fn connect_for_outlets(&self) -> io::Result<UnixStream> {
        connect(&self.outlets()).await
    }
}

impl Lock {
    /// Returns what was taken.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Begins to listen, for this user alone; a socket that a dead host left is replaced.
    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        listen(&self.place.socket())
    }

    /// Does so for whoever wants the listeners of ways out.
    pub(super) fn listen_for_outlets(&self) -> io::Result<UnixListener> {
        listen(&self.place.outlets())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // What cannot be removed is replaced by the next who listens.
        drop(fs::remove_file(self.place.socket()));
        drop(fs::remove_file(self.place.outlets()));
    }
}

/// Connects to a process of this user.
async fn connect(path: &Path) -> io::Result<UnixStream> {
    let (path, _dir) = addressed(path)?;
    let stream = UnixStream::connect(path).await?;
    of_this_user(&stream)?;
    Ok(stream)
}

/// Listens for processes of this user, in place of a socket that is there.
fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let (short, _dir) = addressed(path)?;
    let listener = UnixListener::bind(short)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Returns a path that is short enough for the address of a socket, and what must stay open with it.
fn addressed(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    if path.as_os_str().len() <= LONGEST {
        return Ok((path.to_owned(), None));
    }
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // An address holds 108 bytes; the kernel finds the directory by our descriptor of it.
    let dir = File::open(dir)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
    Ok((short, Some(dir)))
}

/// Refuses the other end of a connection if it is of another user.
pub(super) fn of_this_user(stream: &UnixStream) -> io::Result<()> {
    let theirs = stream.peer_cred()?.uid();
    let ours = rustix::process::geteuid().as_raw();
    if theirs == ours {
        return Ok(());
    }
    let words = format!("the other end runs as user {theirs}, this one as {ours}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_has_a_place_and_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::usual(dir.path());
        assert!(!place.is_held().unwrap() && place.holder().is_none());
        let lock = place.take().await.unwrap();
        assert!(place.is_held().unwrap());
        let error = place.take().await.unwrap_err();
        let pid = std::process::id().to_string();
        assert!(error.to_string().contains(&pid), "{error}");
        let beside = Place::beside(dir.path());
        drop(beside.take().await.unwrap());
        drop(lock);
        assert!(!place.is_held().unwrap());
    }

    #[tokio::test]
    async fn a_long_directory_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("d".repeat(120)).join("e".repeat(200));
        fs::create_dir_all(&long).unwrap();
        let place = Place::usual(&long);
        let lock = place.take().await.unwrap();
        let listener = lock.listen().unwrap();
        let (ours, theirs) = tokio::join!(place.connect(), listener.accept());
        drop((ours.unwrap(), theirs.unwrap()));
        let mode = fs::metadata(place.socket()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop((listener, lock));
        assert!(!place.socket().exists());
    }
}
