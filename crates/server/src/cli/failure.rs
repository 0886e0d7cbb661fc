//! What a command returns when it does not do what was asked.

use std::{fmt, io, process::ExitCode};

use crate::{client, config, server::StartError};

/// What the process returns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// All was done.
    Done = 0,
    /// Something failed.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// No server can be reached.
    Unreachable = 3,
    /// The session ended in an error.
    Ended = 4,
    /// The session waits for an answer.
    Waits = 5,
    /// Sandboxes start, with less.
    Less = 6,
    /// A person stopped it.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command came to nothing, and what would help.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) error: anyhow::Error,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit,
            error: error.into(),
            hint: None,
        }
    }

    /// Makes a failure of words.
    pub(crate) fn say(exit: Exit, words: impl fmt::Display) -> Self {
        Self {
            exit,
            error: anyhow::anyhow!("{words}"),
            hint: None,
        }
    }

    /// Returns why, with every cause that says more than what it caused.
    pub(crate) fn words(&self) -> String {
        let mut words = String::new();
        for cause in self.error.chain().map(ToString::to_string) {
            if words.is_empty() {
                words = cause;
            } else if !words.contains(&cause) {
                words = format!("{words}: {cause}");
            }
        }
        words
    }

    /// Adds what would help.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Tells whether the reader of our output went away, which is nobody's failure.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        let error = self.error.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(Exit::Failed, error)
    }
}

impl From<config::Error> for Failure {
    fn from(error: config::Error) -> Self {
        let unknown = matches!(error, config::Error::Unknown(_));
        let failure = Self::new(Exit::Usage, error);
        if unknown {
            return failure.hint("`outlast config print --defaults` describes every key");
        }
        failure
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let hint = error.hint();
        let exit = match &error {
            StartError::Impossible(_)
            | StartError::Facts(_)
            | StartError::NoServer
            | StartError::Open(_)
            | StartError::Itself { .. }
            | StartError::Upstream(_) => Exit::Usage,
            StartError::Host(_)
            | StartError::Taken(_)
            | StartError::Listen { .. }
            | StartError::Data { .. }
            | StartError::Socket { .. }
            | StartError::Full(_)
            | StartError::Blobs(_)
            | StartError::Store(_)
            | StartError::Shared(_)
            | StartError::Write(_)
            | StartError::Key(_) => Exit::Failed,
        };
        Self {
            exit,
            error: error.into(),
            hint,
        }
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        let (exit, hint) = match &error {
            client::Error::Unreachable { .. } => (
                Exit::Unreachable,
                Some("start one with `outlast serve`, or say where it is with --url"),
            ),
            client::Error::Address { .. } | client::Error::Key => (Exit::Usage, None),
            client::Error::Refused { status: 401, .. } => (
                Exit::Failed,
                Some(
                    "set OUTLAST_API_KEY to the server's key, or name the data directory that has \
                     its local.key with --data-dir",
                ),
            ),
            client::Error::Refused { status: 503, .. } => (
                Exit::Failed,
                Some("nothing was accepted; the server's log says what is wrong"),
            ),
            client::Error::Refused { .. }
            | client::Error::Here { .. }
            | client::Error::Form { .. } => (Exit::Failed, None),
        };
        Self {
            exit,
            error: error.into(),
            hint: hint.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cause_was_quoted_for_is_not_said_again() {
        #[derive(Debug, thiserror::Error)]
        #[error("the database cannot be opened: {0}")]
        struct Quotes(#[source] io::Error);
        let cause = || io::Error::other("disk I/O error");
        let quotes = Failure::new(Exit::Failed, Quotes(cause()));
        assert_eq!(
            quotes.words(),
            "the database cannot be opened: disk I/O error"
        );
        let context = anyhow::Error::new(cause()).context("nothing started");
        let context = Failure::new(Exit::Failed, context);
        assert_eq!(context.words(), "nothing started: disk I/O error");
    }
}
