//! Rows of `records` as records.

use outlast_protocol::Micros;
use outlast_session::{Kind, Record};
use rusqlite::Row;

use super::fault::Fault;
use crate::stored::{Stored, body, event_id, natural, origin};

/// The columns that [`stored`] wants, in its order.
macro_rules! record_columns {
    () => {
        "position, thread, at, origin, kind, version, event, digest, hash, salt, blob, body"
    };
}
pub(super) use record_columns;

/// Reads a row that was selected with [`record_columns!`].
pub(super) fn stored(row: &Row<'_>) -> Result<Stored, Fault> {
    let kind: String = row.get(4)?;
    let event: Option<String> = row.get(6)?;
    let salt: Option<[u8; 16]> = row.get(9)?;
    let blob: Option<i64> = row.get(10)?;
    let kind = Kind::parse(&kind).map_err(|error| Fault::Unreadable(error.to_string()))?;
    let version = row.get(5)?;
    let record = Record {
        position: natural(row.get(0)?),
        thread: row.get(1)?,
        at: Micros(row.get(2)?),
        origin: origin(&row.get::<_, String>(3)?)?,
        kind,
        version,
        event: event.as_deref().map(event_id).transpose()?,
        digest: row.get(7)?,
        hash: row.get(8)?,
        salt,
        body: body(kind, version, row.get(11)?, salt.as_ref())?,
    };
    Ok(Stored {
        record,
        blob: blob.map(natural),
    })
}

/// Returns the kind of a row that was selected with [`record_columns!`], and reads nothing else.
pub(super) fn kind_of<'r>(row: &'r Row<'_>) -> Result<&'r str, Fault> {
    let kind = row.get_ref(4)?.as_str();
    kind.map_err(|error| Fault::Unreadable(format!("a kind is no text: {error}")))
}
