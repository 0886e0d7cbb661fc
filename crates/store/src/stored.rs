//! Records and ids as rows have them.

use outlast_protocol::{
    audit::{Actor, AuditOutcome},
    id::{ApiKeyId, EventId, FileId, ProcessId, RequestId, SessionId},
    key::Scope,
};
use outlast_session::{Body, Formats, Json, Kind, Origin, Record};
use serde_json::value::RawValue;

use crate::ReadError;

/// A row cannot be understood by this version, or is damaged.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(pub(crate) String);

impl From<Unreadable> for ReadError {
    fn from(Unreadable(reason): Unreadable) -> Self {
        Self::Unreadable(reason)
    }
}

/// A record as its row has it: a body in a blob is not there yet.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) record: Record,
    /// Bytes of the body that lies in a blob.
    pub(crate) blob: Option<u64>,
}

impl Stored {
    /// Returns the body that stands in the row.
    pub(crate) fn inline(&self) -> Option<&str> {
        match self.record.body.written() {
            Some(json) => self.blob.is_none().then(|| json.get()),
            None => self.record.salt.is_none().then(|| self.record.body.text()),
        }
    }

    /// Returns the bytes of its body, wherever that lies.
    pub(crate) fn size(&self) -> usize {
        let away = self.blob.and_then(|bytes| usize::try_from(bytes).ok());
        away.unwrap_or_else(|| self.inline().map_or(0, str::len))
    }
}

pub(crate) fn origin(text: &str) -> Result<Origin, Unreadable> {
    Origin::parse(text).ok_or_else(|| Unreadable(format!("`{text}` is no origin")))
}

pub(crate) fn event_id(text: &str) -> Result<EventId, Unreadable> {
    EventId::parse(text).ok_or_else(|| Unreadable(format!("`{text}` is no event id")))
}

/// Reads the body of a row; without a salt it is what is left of one that was erased.
///
/// One that is not in its row is in a blob, and nothing stands for it until it is loaded. A version of
/// the future is refused by name, whatever is there.
pub(crate) fn body(
    kind: Kind,
    version: u16,
    text: Option<String>,
    salt: Option<&[u8; 16]>,
) -> Result<Body, Unreadable> {
    let known = Formats::THIS.check(kind, version);
    known.map_err(|error| Unreadable(error.to_string()))?;
    match (text, salt) {
        (Some(text), Some(_)) => shaped(kind, version, raw(text)?),
        (Some(text), None) => Ok(Body::Erased(raw(text)?)),
        (None, _) => Ok(Body::nothing()),
    }
}

/// Brings a body to the shape of today.
pub(crate) fn shaped(kind: Kind, version: u16, written: Json) -> Result<Body, Unreadable> {
    let read = Formats::THIS.read(kind, version, written);
    read.map_err(|error| Unreadable(error.to_string()))
}

/// Takes text as JSON that was checked when it was written.
pub(crate) fn raw(text: String) -> Result<Json, Unreadable> {
    let raw = RawValue::from_string(text);
    raw.map(Json::from)
        .map_err(|error| Unreadable(format!("a body is no JSON: {error}")))
}

/// Writes a count or position; those of this store are far below the bound.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a count or position.
pub(crate) fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Writes a limit.
pub(crate) fn bound(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Reads an id that this store wrote.
pub(crate) fn session_id(text: &str) -> Result<SessionId, Unreadable> {
    SessionId::parse(text).ok_or_else(|| Unreadable(format!("`{text}` is no session id")))
}

/// Reads the id of a file or blob.
pub(crate) fn file_id(text: &str) -> Result<FileId, Unreadable> {
    FileId::parse(text).ok_or_else(|| Unreadable(format!("`{text}` is no id of a file")))
}

/// Reads the id of a process.
pub(crate) fn process_id(text: &str) -> Result<ProcessId, Unreadable> {
    ProcessId::parse(text).ok_or_else(|| Unreadable(format!("`{text}` is no process id")))
}

/// Reads the id of an API key.
pub(crate) fn key_id(text: &str) -> Result<ApiKeyId, Unreadable> {
    ApiKeyId::parse(text).ok_or_else(|| Unreadable(format!("`{text}` is no id of a key")))
}

/// Reads what a key may do; a word of the future may mean less than any known one, so it is refused.
pub(crate) fn scope(text: &str) -> Result<Scope, Unreadable> {
    let read = text.parse();
    read.map_err(|_| Unreadable(format!("`{text}` is no scope of a key")))
}

/// Reads who did something.
pub(crate) fn actor(text: &str) -> Result<Actor, Unreadable> {
    let read = text.parse();
    read.map_err(|_| Unreadable(format!("`{text}` is nobody who does anything")))
}

/// Reads the id of a request.
pub(crate) fn request_id(text: &str) -> Result<RequestId, Unreadable> {
    RequestId::parse(text).ok_or_else(|| Unreadable(format!("`{text}` is no id of a request")))
}

/// Reads what came of something.
pub(crate) fn audit_outcome(text: &str) -> Result<AuditOutcome, Unreadable> {
    let known = AuditOutcome::TABLE.iter().find(|(word, _)| *word == text);
    known
        .map(|(_, outcome)| *outcome)
        .ok_or_else(|| Unreadable(format!("`{text}` is no outcome")))
}

/// Reads a number that is smaller than those of rows.
pub(crate) fn small<T: TryFrom<i64>>(number: i64) -> Result<T, Unreadable> {
    T::try_from(number).map_err(|_| Unreadable(format!("{number} is out of bounds")))
}
