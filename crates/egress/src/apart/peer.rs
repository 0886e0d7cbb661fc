//! The two ends of a socket, which know each other by their users.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixStream};

/// Where the other process is found, and whose it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Peer {
    /// The socket; listeners are handed over at one beside it.
    pub socket: PathBuf,
    /// The user of the process at the other end.
    pub user: u32,
}

impl Peer {
    /// Returns where listeners are handed over.
    pub(super) fn outlets(&self) -> PathBuf {
        let mut name = self.socket.clone().into_os_string();
        name.push(".outlets");
        name.into()
    }

    /// Connects to a process of that user.
    pub(super) async fn connect(&self, path: &Path) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(path).await?;
        self.check(&stream)?;
        Ok(stream)
    }

    /// Accepts the next connection of that user; what cannot be accepted is waited out.
    pub(super) async fn accept(&self, listener: &UnixListener) -> UnixStream {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => match self.check(&stream) {
                    Ok(()) => return stream,
                    Err(error) => tracing::warn!("a connection is refused: {error}"),
                },
                Err(error) => {
                    tracing::error!(%error, "cannot accept a connection: {error}");
                    tokio::time::sleep(super::serve::PAUSE).await;
                }
            }
        }
    }

    fn check(&self, stream: &UnixStream) -> io::Result<()> {
        let theirs = stream.peer_cred()?.uid();
        if theirs == self.user {
            return Ok(());
        }
        let words = format!(
            "the other end runs as user {theirs}, and `egress.peer` is user {}",
            self.user
        );
        Err(io::Error::new(io::ErrorKind::PermissionDenied, words))
    }
}

/// Listens in place of a socket that a process left which is gone.
///
/// Everybody may connect: who is answered is decided by the user of each connection.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        let words = "another process listens there";
        return Err(io::Error::new(io::ErrorKind::AddrInUse, words));
    }
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => {
            let words = "something else than a socket is there, and stays";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, words));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(listener)
}
