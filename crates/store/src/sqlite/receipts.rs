//! What answers a repeat of an accepted request.

use outlast_protocol::Micros;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{fault::Fault, resources::Written};
use crate::{
    Receipt, Reply, Unless,
    stored::{bound, integer, natural, session_id},
};

/// Writes a receipt over an older one of the same request.
pub(super) fn put(transaction: &Connection, receipt: &Receipt) -> Result<(), Fault> {
    let (body, records) = match &receipt.reply {
        Reply::Body(body) => (Some(body), None),
        Reply::Records {
            session,
            first,
            last,
        } => (
            None,
            Some((session.to_string(), integer(*first), integer(*last))),
        ),
    };
    let (session, first, last) = match records {
        Some((session, first, last)) => (Some(session), Some(first), Some(last)),
        None => (None, None, None),
    };
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO receipts \
             (fingerprint, attempt, at, written, body, session, first, last) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            receipt.fingerprint,
            receipt.attempt,
            receipt.at.0,
            receipt.written,
            body,
            session,
            first,
            last,
        ])?;
    Ok(())
}

/// Finds the receipt of a request that is not older than `since`.
pub(super) fn find(
    connection: &Connection,
    fingerprint: [u8; 32],
    since: Micros,
) -> Result<Option<Receipt>, Fault> {
    connection
        .prepare_cached(
            "SELECT attempt, at, written, body, session, first, last FROM receipts \
             WHERE fingerprint = ?1 AND at >= ?2",
        )?
        .query_row(params![fingerprint, since.0], |row| {
            Ok(read(fingerprint, row))
        })
        .optional()?
        .transpose()
}

/// Tells whether another attempt of a request was accepted already.
pub(super) fn answered(connection: &Connection, receipt: Option<&Receipt>) -> Result<bool, Fault> {
    let Some(receipt) = receipt.filter(|receipt| receipt.unless != Unless::Never) else {
        return Ok(false);
    };
    let known = find(connection, receipt.fingerprint, Micros(i64::MIN))?;
    Ok(known.is_some_and(|known| receipt.yields_to(&known)))
}

fn read(fingerprint: [u8; 32], row: &Row<'_>) -> Result<Receipt, Fault> {
    let reply = match row.get::<_, Option<String>>(3)? {
        Some(body) => Reply::Body(body),
        None => Reply::Records {
            session: session_id(&row.get::<_, String>(4)?)?,
            first: natural(row.get(5)?),
            last: natural(row.get(6)?),
        },
    };
    Ok(Receipt {
        fingerprint,
        attempt: row.get(0)?,
        at: Micros(row.get(1)?),
        written: row.get(2)?,
        reply,
        unless: Unless::Never,
    })
}

/// Receipts that one transaction drops.
pub(super) const CHUNK: usize = 500;

/// Notes that an answer was written out whole.
pub(super) fn written_out(transaction: &Connection, fingerprint: [u8; 32]) -> Written<()> {
    transaction
        .prepare_cached("UPDATE receipts SET written = 1 WHERE fingerprint = ?1 AND written = 0")?
        .execute([fingerprint])?;
    Ok(Ok(()))
}

/// Drops some receipts older than `before`; returns how many went.
pub(super) fn sweep(transaction: &Connection, before: Micros) -> Written<usize> {
    let gone = transaction
        .prepare_cached(
            "DELETE FROM receipts WHERE rowid IN \
             (SELECT rowid FROM receipts WHERE at < ?1 LIMIT ?2)",
        )?
        .execute(params![before.0, bound(CHUNK)])?;
    Ok(Ok(gone))
}
