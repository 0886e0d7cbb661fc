//! Rows of `records` as records.

use outlast_protocol::Micros;
use outlast_session::{Kind, Record};
use tokio_postgres::Row;

use super::fault::Fault;
use crate::stored::{Stored, body, event_id, natural, origin};

/// The columns that [`stored`] wants, in its order, of `records r`.
macro_rules! record_columns {
    () => {
        "r.position, r.thread, r.at, r.origin, r.kind, r.version, r.event, r.digest, r.hash, r.salt, \
         r.blob, r.body"
    };
}
pub(super) use record_columns;

/// Reads a row that was selected with [`record_columns!`].
pub(super) fn stored(row: &Row) -> Result<Stored, Fault> {
    let kind: &str = row.try_get(4)?;
    let event: Option<&str> = row.try_get(6)?;
    let salt: Option<&[u8]> = row.try_get(9)?;
    let salt: Option<[u8; 16]> = salt.map(array).transpose()?;
    let blob: Option<i64> = row.try_get(10)?;
    let kind = Kind::parse(kind).map_err(|error| Fault::Unreadable(error.to_string()))?;
    let version = small(row.try_get(5)?)?;
    let record = Record {
        position: natural(row.try_get(0)?),
        thread: small(row.try_get(1)?)?,
        at: Micros(row.try_get(2)?),
        origin: origin(row.try_get(3)?)?,
        kind,
        version,
        event: event.map(event_id).transpose()?,
        digest: array(row.try_get(7)?)?,
        hash: array(row.try_get(8)?)?,
        salt,
        body: body(kind, version, row.try_get(11)?, salt.as_ref())?,
    };
    Ok(Stored {
        record,
        blob: blob.map(natural),
    })
}

/// Reads bytes of a known number.
pub(super) fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Fault> {
    bytes
        .try_into()
        .map_err(|_| Fault::Unreadable(format!("{} bytes stand where {N} should", bytes.len())))
}

/// Reads a number that is smaller than its column.
pub(super) fn small<T: TryFrom<i64>>(number: i64) -> Result<T, Fault> {
    T::try_from(number).map_err(|_| Fault::Unreadable(format!("{number} is out of bounds")))
}
