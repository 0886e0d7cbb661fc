//! What answers a repeat of an accepted request.

use outlast_protocol::Micros;

use super::{connect::Connection, fault::Fault, rows::small};
use crate::{
    ReadError, Receipt, Reply, Unless,
    stored::{bound, integer, natural, session_id},
};

/// Receipts that one transaction drops.
pub(super) const CHUNK: usize = 500;

/// The columns of a receipt's row.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) body: Option<String>,
    pub(super) session: Option<String>,
    pub(super) first: Option<i64>,
    pub(super) last: Option<i64>,
}

impl Columns {
    pub(super) fn of(reply: &Reply) -> Self {
        match reply {
            Reply::Body(body) => Self {
                body: Some(body.clone()),
                session: None,
                first: None,
                last: None,
            },
            Reply::Records {
                session,
                first,
                last,
            } => Self {
                body: None,
                session: Some(session.to_string()),
                first: Some(integer(*first)),
                last: Some(integer(*last)),
            },
        }
    }
}

/// What says for which receipts of a request another one is superfluous, as columns: how, since when.
pub(super) fn unless(receipt: &Receipt) -> (i64, i64) {
    match receipt.unless {
        Unless::Never => (0, 0),
        Unless::Later(since) => (1, since.0),
        Unless::Other(since) => (2, since.0),
        Unless::Any(since) => (3, since.0),
    }
}

/// The condition that a row `r` of `receipts` keeps `g`, one that is to be written, from being so.
pub(super) const YIELDS: &str = "CASE g.how WHEN 1 THEN r.attempt > g.attempt \
                                 AND (r.at > g.at OR (NOT r.written AND r.at >= g.since)) \
                                 WHEN 2 THEN NOT r.written AND r.attempt <> g.attempt \
                                 AND r.at >= g.since \
                                 WHEN 3 THEN r.at >= g.since ELSE false END";

/// Has attempts of some requests wait for each other until their transactions end.
pub(super) const ALONE: &str = "SELECT pg_advisory_xact_lock(k.key) FROM (SELECT DISTINCT \
                                hashtextextended(encode(f.print, 'hex'), 7160) AS key \
                                FROM unnest($1::bytea[]) AS f (print) ORDER BY key) k";

/// Tells whether another attempt of a request was accepted already; none is until this one's
/// transaction ends.
pub(super) async fn answered(tx: &Connection, receipt: Option<&Receipt>) -> Result<bool, Fault> {
    let Some(receipt) = receipt.filter(|receipt| receipt.unless != Unless::Never) else {
        return Ok(false);
    };
    let print = receipt.fingerprint.to_vec();
    tx.rows(ALONE, &[&vec![print]]).await?;
    let known = find(tx, receipt.fingerprint, Micros(i64::MIN)).await;
    let known = known.map_err(|error| Fault::Unreadable(error.to_string()))?;
    Ok(known.is_some_and(|known| receipt.yields_to(&known)))
}

/// Writes a receipt over an older one of the same request.
pub(super) async fn put(tx: &Connection, receipt: Option<&Receipt>) -> Result<(), Fault> {
    let Some(receipt) = receipt else {
        return Ok(());
    };
    let text = "INSERT INTO receipts (fingerprint, attempt, at, written, body, session, first, last) \
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (fingerprint) DO UPDATE SET \
                attempt = excluded.attempt, at = excluded.at, written = excluded.written, \
                body = excluded.body, session = excluded.session, first = excluded.first, \
                last = excluded.last";
    let columns = Columns::of(&receipt.reply);
    let values: [super::connect::Value<'_>; 8] = [
        &receipt.fingerprint.as_slice(),
        &i64::from(receipt.attempt),
        &receipt.at.0,
        &receipt.written,
        &columns.body,
        &columns.session,
        &columns.first,
        &columns.last,
    ];
    tx.run(text, &values).await?;
    Ok(())
}

/// Finds the receipt of a request that is not older than `since`.
pub(super) async fn find(
    connection: &Connection,
    fingerprint: [u8; 32],
    since: Micros,
) -> Result<Option<Receipt>, ReadError> {
    let text = "SELECT attempt, at, written, body, session, first, last FROM receipts \
                WHERE fingerprint = $1 AND at >= $2";
    let found = connection
        .row(text, &[&fingerprint.as_slice(), &since.0])
        .await?;
    let Some(row) = found else { return Ok(None) };
    let reply = match row.try_get::<_, Option<String>>(3)? {
        Some(body) => Reply::Body(body),
        None => Reply::Records {
            session: session_id(row.try_get(4)?)?,
            first: natural(row.try_get(5)?),
            last: natural(row.try_get(6)?),
        },
    };
    Ok(Some(Receipt {
        fingerprint,
        attempt: small(row.try_get(0)?)?,
        at: Micros(row.try_get(1)?),
        written: row.try_get(2)?,
        reply,
        unless: Unless::Never,
    }))
}

/// Notes that answers were written out whole.
pub(super) async fn written_out(tx: &Connection, fingerprint: [u8; 32]) -> Result<(), Fault> {
    let text = "UPDATE receipts SET written = true WHERE fingerprint = $1 AND NOT written";
    tx.run(text, &[&fingerprint.as_slice()]).await?;
    Ok(())
}

/// Drops some receipts older than `before`; returns how many went.
pub(super) async fn sweep(tx: &Connection, before: Micros) -> Result<usize, Fault> {
    let text = "DELETE FROM receipts WHERE fingerprint IN \
                (SELECT fingerprint FROM receipts WHERE at < $1 LIMIT $2) AND at < $1";
    let gone = tx.run(text, &[&before.0, &bound(CHUNK)]).await?;
    Ok(usize::try_from(gone).unwrap_or(usize::MAX))
}
