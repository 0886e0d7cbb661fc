//! Blobs that the store takes note of.

use std::fmt;

use outlast_protocol::id::{FileId, SessionId};
use outlast_session::State;

/// A blob that a file or a log may name; its text is another for each.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Blob {
    /// The bytes of one file or several.
    File(FileId),
    /// What lies below a session's own key: the checkpoint of its workspace, or a body.
    Session {
        /// Whose.
        session: SessionId,
        /// Its key; that of a checkpoint is as the log names it.
        key: String,
    },
}

impl Blob {
    /// Reads it from its key, which lies below that of its session.
    pub fn of_session(key: &str) -> Option<Self> {
        let (session, _) = key.strip_prefix("sessions/")?.split_once('/')?;
        let session = SessionId::parse(session)?;
        let key = key.to_owned();
        Some(Self::Session { session, key })
    }

    /// Names the body of a record of a session, by its digest.
    pub fn of_body(session: SessionId, digest: &[u8; 32]) -> Self {
        let key = crate::bodies::key(session, digest).to_string();
        Self::Session { session, key }
    }

    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        match FileId::parse(text) {
            Some(file) => Some(Self::File(file)),
            None => Self::of_session(text),
        }
    }

    /// Returns the checkpoints that a session needs: the newest ones, as long as it can go on.
    pub fn needed_by(state: &State) -> Vec<Self> {
        if state.deleted || state.archived_at.is_some() {
            return Vec::new();
        }
        let known = state.checkpoints.iter();
        known
            .filter_map(|known| Self::of_session(&known.taken.blob))
            .collect()
    }

    /// Returns the checkpoints that one state of a session needs and another does not.
    pub fn needed_only_by(state: &State, other: Option<&State>) -> Vec<Self> {
        let others = other.map(Self::needed_by).unwrap_or_default();
        let mut own = Self::needed_by(state);
        own.retain(|blob| !others.contains(blob));
        own
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
            Self::Session { key, .. } => key.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use outlast_protocol::Micros;
    use outlast_testkit::random::Constant;

    use super::*;

    #[test]
    fn texts_come_back() {
        let session = SessionId::mint(Micros(1), &Constant(0));
        let key = format!("sessions/{session}/checkpoints/a-1");
        let checkpoint = Blob::Session {
            session,
            key: key.clone(),
        };
        assert_eq!(Blob::of_session(&key), Some(checkpoint.clone()));
        for blob in [checkpoint, FileId::mint(Micros(1), &Constant(0)).into()] {
            assert_eq!(Blob::parse(&blob.to_string()), Some(blob));
        }
        for odd in ["", "x", "sessions/x/checkpoints/a", "sessions/", "files/x"] {
            assert_eq!(Blob::parse(odd), None, "{odd}");
        }
    }
}
