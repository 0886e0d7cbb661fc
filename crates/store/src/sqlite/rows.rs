//! Rows of `records` as records.

use outlast_protocol::{Micros, id::EventId};
use outlast_session::{Body, Json, Kind, Origin, Record};
use rusqlite::Row;
use serde_json::value::RawValue;

use super::fault::Fault;

/// The columns that [`Stored::read`] wants, in its order.
macro_rules! record_columns {
    () => {
        "position, thread, at, origin, kind, version, event, digest, hash, salt, blob, body"
    };
}
pub(super) use record_columns;

/// A record as its row has it: a body in a blob is not there yet.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) record: Record,
    /// Bytes of the body that lies in a blob.
    pub(super) blob: Option<u64>,
}

impl Stored {
    /// Returns the bytes of its body, wherever that lies.
    pub(super) fn size(&self) -> usize {
        let away = self.blob.and_then(|bytes| usize::try_from(bytes).ok());
        away.unwrap_or_else(|| self.record.body.text().len())
    }

    /// Reads a row that was selected with [`record_columns!`].
    pub(super) fn read(row: &Row<'_>) -> Result<Self, Fault> {
        let kind: String = row.get(4)?;
        let event: Option<String> = row.get(6)?;
        let salt: Option<[u8; 16]> = row.get(9)?;
        let blob: Option<i64> = row.get(10)?;
        let record = Record {
            position: natural(row.get(0)?),
            thread: row.get(1)?,
            at: Micros(row.get(2)?),
            origin: origin(&row.get::<_, String>(3)?)?,
            kind: Kind::parse(&kind).map_err(|error| Fault::Unreadable(error.to_string()))?,
            version: row.get(5)?,
            event: event.as_deref().map(event_id).transpose()?,
            digest: row.get(7)?,
            hash: row.get(8)?,
            salt,
            body: body(row.get(11)?)?,
        };
        Ok(Self {
            record,
            blob: blob.map(natural),
        })
    }
}

/// Returns the kind of a row that was selected with [`record_columns!`], and reads nothing else.
pub(super) fn kind_of<'r>(row: &'r Row<'_>) -> Result<&'r str, Fault> {
    let kind = row.get_ref(4)?.as_str();
    kind.map_err(|error| Fault::Unreadable(format!("a kind is no text: {error}")))
}

fn origin(text: &str) -> Result<Origin, Fault> {
    Origin::parse(text).ok_or_else(|| Fault::Unreadable(format!("`{text}` is no origin")))
}

fn event_id(text: &str) -> Result<EventId, Fault> {
    EventId::parse(text).ok_or_else(|| Fault::Unreadable(format!("`{text}` is no event id")))
}

fn body(text: Option<String>) -> Result<Body, Fault> {
    text.map_or(Ok(Body::Erased), |text| Ok(Body::Json(raw(text)?)))
}

/// Takes text as JSON that was checked when it was written.
pub(super) fn raw(text: String) -> Result<Json, Fault> {
    let raw = RawValue::from_string(text);
    raw.map(Json::from)
        .map_err(|error| Fault::Unreadable(format!("a body is no JSON: {error}")))
}

/// Writes a count or position; those of this store are far below the bound.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a count or position.
pub(super) fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Writes a limit.
pub(super) fn bound(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
