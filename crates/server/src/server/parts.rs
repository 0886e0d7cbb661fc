//! What an operator should know about a start.

use std::path::PathBuf;

use crate::{config::Upstream, server::Key};

/// What an operator should know about a start. None of it is a secret but a key that was just made.
#[derive(Debug)]
pub struct Facts {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Which models answer.
    pub backend: Backend,
    /// What isolation sandboxes have here, in words.
    pub isolation: String,
    /// Whether any sandbox can be started.
    pub has_sandboxes: bool,
    /// Which process sandboxes live in, in words.
    pub host: String,
    /// Which key clients must send.
    pub key: Key,
}

/// Which models answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Backend {
    /// The scripted model alone.
    Scripted,
    /// An upstream beside it.
    Upstream {
        /// Where requests go.
        url: String,
        /// Where key and address came from, in words.
        origin: String,
    },
    /// Those of the egress process beside it.
    Apart {
        /// Where that process is found.
        socket: PathBuf,
    },
}

impl Backend {
    pub(super) fn of(upstream: &Upstream, url: Option<&str>) -> Self {
        let Some(url) = url else {
            return Self::Scripted;
        };
        let origin = match (&upstream.fallback, &upstream.api_key) {
            (Some(fallback), _) => format!("from {}", fallback.variables.join(" and ")),
            (None, Some(_)) => "key from our own configuration".to_owned(),
            (None, None) => "no key".to_owned(),
        };
        Self::Upstream {
            url: url.to_owned(),
            origin,
        }
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scripted => f.write_str(
                "the scripted model alone (no upstream: set OUTLAST_UPSTREAM_API_KEY or \
                 OUTLAST_UPSTREAM_BASE_URL)",
            ),
            Self::Apart { socket } => write!(
                f,
                "those of the egress process at {}, and `scripted`",
                socket.display()
            ),
            Self::Upstream { url, origin } => write!(f, "{url} ({origin}), and `scripted`"),
        }
    }
}
