//! Why a server does not start.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use outlast_hands::host::OpenError;
use outlast_protocol::{ErrorCode, Problem};
use outlast_store::{LockError, WriteError, postgres, sqlite};

use crate::config::{Impossible, models::Unusable};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot be.
    #[error(transparent)]
    Impossible(#[from] Impossible),
    /// The table of model facts cannot be used.
    #[error(transparent)]
    Facts(#[from] Unusable),
    /// Others could reach it, and there is no key of the operator's.
    #[error("`{0}` can be reached from other machines, and no key is set")]
    Open(SocketAddr),
    /// The port is taken, or not ours to take.
    #[error("cannot listen on `{address}`: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The model's address is this server.
    #[error("the model's address `{url}`{} is this server itself", named(.variable))]
    Itself {
        /// The address.
        url: String,
        /// The variable of other tools that said so, if one did.
        variable: Option<&'static str>,
    },
    /// The upstream cannot be used as it is configured.
    #[error(transparent)]
    Upstream(#[from] outlast_model::upstream::BadOptions),
    /// The disk of the data directory takes nothing more.
    #[error("the disk of the data directory `{}` is full, and nothing starts without room", .0.display())]
    Full(PathBuf),
    /// A file or folder of the data directory cannot be made or read.
    #[error("`{}`: {error}", path.display())]
    Data {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A server was wanted, and the roles are those of the egress alone.
    #[error("`server.roles` says `egress` alone: that is no server; start it by `outlast serve`")]
    NoServer,
    /// The socket of an egress process cannot be made.
    #[error("cannot listen on `{}`: {error}", path.display())]
    Socket {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The bucket for blobs cannot be used.
    #[error("blobs cannot be kept where `blobs.url` says: {0}")]
    Blobs(outlast_blobs::Error),
    /// The process that sandboxes live in.
    #[error(transparent)]
    Host(#[from] outlast_hands::host::OpenError),
    /// Another process has the sandboxes.
    #[error(transparent)]
    Taken(#[from] outlast_hands::host::TakeError),
    /// The store cannot be opened; another server may have it.
    #[error(transparent)]
    Store(#[from] sqlite::OpenError),
    /// The database of several nodes cannot be opened.
    #[error(transparent)]
    Shared(#[from] postgres::OpenError),
    /// The store cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The key cannot be made valid.
    #[error("the server's own key cannot be made valid: {0}")]
    Key(#[from] Problem),
}

fn named(variable: &Option<&'static str>) -> String {
    variable
        .map(|name| format!(" of {name}"))
        .unwrap_or_default()
}

impl StartError {
    /// Returns that the disk is full in place of what failed first because it is.
    pub(super) fn of_room(self, data_dir: &Path) -> Self {
        let writes = matches!(
            self,
            Self::Data { .. } | Self::Store(_) | Self::Write(_) | Self::Host(_) | Self::Key(_)
        );
        // One that could not be made lies on the disk of the first that is there.
        let mut there = data_dir.ancestors().filter(|folder| folder.is_dir());
        if writes && there.next().is_some_and(outlast_blobs::lacks_room) {
            return Self::Full(data_dir.to_owned());
        }
        self
    }

    /// Returns what would help, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Open(_) => Some(
                "set OUTLAST_API_KEY, or listen on a loopback address such as 127.0.0.1:4747"
                    .to_owned(),
            ),
            Self::Listen { error, .. } if error.kind() == io::ErrorKind::AddrInUse => {
                Some("another server runs there? choose another address with --listen".to_owned())
            }
            Self::Itself {
                variable: Some(name),
                ..
            } => Some(format!(
                "{name} is for clients of this server; unset it for the server, or set \
                 OUTLAST_UPSTREAM_BASE_URL to where the model is"
            )),
            Self::Itself { variable: None, .. } => {
                Some("set `upstream.base_url` to where the model is, or leave it out".to_owned())
            }
            Self::Store(sqlite::OpenError::Lock(LockError::Held { holder, .. }))
            | Self::Shared(postgres::OpenError::Lock(LockError::Held { holder, .. })) => {
                Some(format!(
                    "one server at a time has a data directory: stop process {holder}, or choose \
                     another directory with --data-dir"
                ))
            }
            Self::Shared(postgres::OpenError::Away(_)) => {
                Some("it is named by OUTLAST_DATABASE_URL or `database.url`".to_owned())
            }
            Self::Full(_) => Some(
                "make room there, or choose a directory on another disk with --data-dir; what was \
                 recorded is kept"
                    .to_owned(),
            ),
            Self::Data { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => {
                Some("choose a directory of your own with --data-dir".to_owned())
            }
            Self::Host(OpenError::Start(_) | OpenError::Silent { .. }) => {
                Some("its log is `hand-host.log` in the data directory".to_owned())
            }
            Self::Key(problem) if problem.code == ErrorCode::Conflict => {
                Some("set another OUTLAST_API_KEY, or leave it out".to_owned())
            }
            Self::Socket { error, .. } if error.kind() == io::ErrorKind::AddrInUse => {
                Some("one egress process has a socket: stop the other one first".to_owned())
            }
            Self::Socket { .. } => Some(
                "its folder has to be there, for this user to write to and for the server's to enter: \
                 systemd makes one by RuntimeDirectory="
                    .to_owned(),
            ),
            Self::NoServer
            | Self::Host(OpenError::None(_))
            | Self::Taken(_)
            | Self::Impossible(_)
            | Self::Facts(_)
            | Self::Listen { .. }
            | Self::Upstream(_)
            | Self::Data { .. }
            | Self::Blobs(_)
            | Self::Store(_)
            | Self::Shared(_)
            | Self::Write(_)
            | Self::Key(_) => None,
        }
    }
}
