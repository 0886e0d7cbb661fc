//! Records as their rows have them, damaged ones among them.

use outlast_session::chain;
use tokio_postgres::Row;

use crate::{
    Damage, Flaw,
    onlooker::{Projected, Seen},
    postgres::{
        connect::Connection,
        fault::Fault,
        rows::{array, record_columns, stored},
    },
    stored::{bound, integer, natural},
};

/// Records looked at between two looks at the database.
const PAGE: usize = 200;

/// What a page of a log is.
const ALONG: &str = concat!(
    "SELECT ",
    record_columns!(),
    ", r.public FROM records r WHERE r.session_no = $1 AND r.position > $2 AND r.position <= $3 \
     ORDER BY r.position LIMIT $4"
);

/// Reads a few rows, as far as they can be read.
pub(super) async fn page(
    connection: &Connection,
    kept: &Projected,
    after: u64,
) -> Result<Vec<Seen>, Fault> {
    let (from, to) = (integer(after), integer(kept.end.tail));
    let rows = connection
        .rows(ALONG, &[&kept.no, &from, &to, &bound(PAGE)])
        .await?;
    rows.iter().map(seen).collect()
}

/// Reads a row; what its columns hold may be anything.
fn seen(row: &Row) -> Result<Seen, Fault> {
    let position = natural(row.try_get(0)?);
    match stored(row) {
        Ok(stored) => Ok(Ok((stored, row.try_get(12)?))),
        Err(Fault::Unreadable(_)) if has_other_body(row) => {
            Ok(Err(Damage::from(Flaw::Body).at(position)))
        }
        Err(Fault::Unreadable(why)) => Ok(Err(Damage::Unreadable(why).at(position))),
        Err(fault) => Err(fault),
    }
}

/// Tells whether it is the body of an unreadable row that was changed.
fn has_other_body(row: &Row) -> bool {
    let column = |at: usize| row.try_get::<_, &[u8]>(at).ok();
    let (digest, salt) = (column(7), column(9));
    let (Some(digest), Some(salt)) = (digest, salt) else {
        return false;
    };
    let (Ok(digest), Ok(salt)) = (array::<32>(digest), array::<16>(salt)) else {
        return false;
    };
    let body = row.try_get::<_, Option<&str>>(11).ok().flatten();
    body.is_some_and(|text| chain::digest(&salt, text) != digest)
}
