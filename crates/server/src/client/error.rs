//! Why a request came to nothing.

use std::time::Duration;

/// Why a request came to nothing.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// The address is none.
    #[error("`{url}` is no address of a server: {reason}")]
    Address {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The key has characters that cannot be sent.
    #[error("the API key has characters that cannot be sent")]
    Key,
    /// Nobody answers.
    #[error("cannot reach the server at {url}: {reason}")]
    Unreachable {
        /// Where.
        url: String,
        /// Why not.
        reason: String,
        /// Whether the request may have got there.
        begun: bool,
    },
    /// The server said no.
    #[error("{message}{}", named(.request.as_deref()))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Its words.
        message: String,
        /// Its name of the request.
        request: Option<String>,
        /// How long it asks to wait.
        after: Option<Duration>,
    },
    /// A file on this side cannot be read or written.
    #[error("{what}: {reason}")]
    Here {
        /// Which.
        what: String,
        /// Why not.
        reason: String,
    },
    /// The answer is not what a server of this API says.
    #[error("the server answered in a form that is not understood: {what}")]
    Form {
        /// What is wrong.
        what: String,
    },
}

fn named(request: Option<&str>) -> String {
    request
        .map(|id| format!(" (request {id})"))
        .unwrap_or_default()
}

impl Error {
    /// Tells whether the same request may succeed in a moment.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => matches!(status, 429 | 502 | 503 | 504 | 529),
            Self::Address { .. } | Self::Key | Self::Here { .. } | Self::Form { .. } => false,
        }
    }

    /// Returns how long the server asks to wait.
    pub(super) fn after(&self) -> Option<Duration> {
        match self {
            Self::Refused { after, .. } => *after,
            Self::Address { .. }
            | Self::Key
            | Self::Unreachable { .. }
            | Self::Here { .. }
            | Self::Form { .. } => None,
        }
    }

    /// Returns the HTTP status of a refusal.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Address { .. }
            | Self::Key
            | Self::Unreachable { .. }
            | Self::Here { .. }
            | Self::Form { .. } => None,
        }
    }
}

/// Joins an error and its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Many errors repeat their cause.
        if !words.contains(&more) {
            words.push_str(": ");
            words.push_str(&more);
        }
        cause = error.source();
    }
    words
}
