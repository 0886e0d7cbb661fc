//! Blobs that the store takes note of.

use std::fmt;

use outlast_protocol::id::{FileId, SessionId};
use outlast_session::State;

/// A blob that a file or a log may name; its text is another for each.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Blob {
    /// The bytes of one file or several.
    File(FileId),
    /// The checkpoint of a session's workspace.
    Checkpoint {
        /// Whose.
        session: SessionId,
        /// Its key, as the log names it.
        key: String,
    },
}

impl Blob {
    /// Reads a checkpoint from its key, which lies below that of its session.
    pub fn checkpoint(key: &str) -> Option<Self> {
        let (session, _) = key.strip_prefix("sessions/")?.split_once('/')?;
        let session = SessionId::parse(session)?;
        let key = key.to_owned();
        Some(Self::Checkpoint { session, key })
    }

    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        match FileId::parse(text) {
            Some(file) => Some(Self::File(file)),
            None => Self::checkpoint(text),
        }
    }

    /// Returns the checkpoint that a session needs: the newest one, as long as it can go on.
    pub fn needed_by(state: &State) -> Option<Self> {
        if state.deleted || state.archived_at.is_some() {
            return None;
        }
        Self::checkpoint(&state.checkpoint.as_ref()?.blob)
    }
}

impl From<FileId> for Blob {
    fn from(file: FileId) -> Self {
        Self::File(file)
    }
}

impl fmt::Display for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.fmt(f),
            Self::Checkpoint { key, .. } => key.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use outlast_protocol::{Micros, seam::Entropy};

    use super::*;

    #[derive(Debug)]
    struct Zero;

    impl Entropy for Zero {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(0);
        }
    }

    #[test]
    fn texts_come_back() {
        let session = SessionId::mint(Micros(1), &Zero);
        let key = format!("sessions/{session}/checkpoints/a-1");
        let checkpoint = Blob::Checkpoint {
            session,
            key: key.clone(),
        };
        assert_eq!(Blob::checkpoint(&key), Some(checkpoint.clone()));
        for blob in [checkpoint, FileId::mint(Micros(1), &Zero).into()] {
            assert_eq!(Blob::parse(&blob.to_string()), Some(blob));
        }
        for odd in ["", "x", "sessions/x/checkpoints/a", "sessions/", "files/x"] {
            assert_eq!(Blob::parse(odd), None, "{odd}");
        }
    }
}
