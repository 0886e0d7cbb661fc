//! The statement that an append is: the head moves if it is where it was expected, and what goes
//! with it is written from that.

use outlast_session::STATE_VERSION;

use super::{
    super::sql::Sql,
    plan::Write,
    rows::{Cell, Join, Row, Table, insert, part},
};
use crate::{
    Receipt,
    postgres::receipts::{Columns, YIELDS, unless},
    projection::{Facets, Lease, epochs, name, text},
    stored::{Stored, integer},
};

/// Columns of a head that every append moves.
const MOVES: &str = "tail, hash, epochs, state_version, state, status";

/// The records themselves.
const RECORDS: Table = Table {
    part: "rows",
    table: "records",
    key: Some("session_no"),
    columns: &[
        "position", "thread", "at", "public", "origin", "kind", "version", "event", "digest",
        "hash", "salt", "blob", "body",
    ],
    conflict: "",
};

/// The leases.
const THREADS: Table = Table {
    part: "leases",
    table: "threads",
    key: Some("session_no"),
    columns: &[
        "thread", "epoch", "attempts", "holder", "work", "ready_at", "since", "deadline",
    ],
    conflict: " ON CONFLICT (session_no, thread) DO UPDATE SET epoch = excluded.epoch, \
               attempts = excluded.attempts, holder = excluded.holder, work = excluded.work, \
               since = CASE WHEN threads.ready_at IS NULL THEN excluded.since \
               ELSE threads.since END, ready_at = excluded.ready_at, deadline = excluded.deadline",
};

/// The receipts, which know no session by its number.
const RECEIPTS: Table = Table {
    part: "told",
    table: "receipts",
    key: None,
    columns: &[
        "fingerprint",
        "attempt",
        "at",
        "written",
        "body",
        "session",
        "first",
        "last",
    ],
    conflict: " ON CONFLICT (fingerprint) DO UPDATE SET attempt = excluded.attempt, \
               at = excluded.at, written = excluded.written, body = excluded.body, \
               session = excluded.session, first = excluded.first, last = excluded.last",
};

/// Makes the statement of one append.
pub(super) fn single(write: &Write) -> Result<Sql, serde_json::Error> {
    let mut sql = Sql::new("WITH head AS (");
    match &write.before {
        Some(before) => {
            sql.say("UPDATE sessions s SET (")
                .say(MOVES)
                .say(") = (")
                .bind(integer(write.state.tail), "bigint")
                .and(write.hash.to_vec(), "bytea")
                .and(write.epochs(), "text")
                .and(i64::from(STATE_VERSION), "bigint")
                .and(text(&*write.state)?, "text")
                .and(Facets::of(&write.state).status, "text")
                .say(") WHERE s.no = ")
                .bind(before.no, "bigint")
                .say(" AND s.tail = ")
                .bind(integer(before.state.tail), "bigint")
                .say(" AND s.hash = ")
                .bind(before.hash.to_vec(), "bytea")
                .say(" AND s.epochs = ")
                .bind(epochs(&before.state), "text")
                .say(" AND NOT s.deleted");
        }
        None => create(&mut sql, write)?,
    }
    guards(&mut sql, write);
    if write.before.is_none() {
        sql.say(" ON CONFLICT (id) DO NOTHING");
    }
    sql.say(" RETURNING no)");
    rest(&mut sql, &[write], Join::Only);
    Ok(sql)
}

/// Begins the row of a new session.
fn create(sql: &mut Sql, write: &Write) -> Result<(), serde_json::Error> {
    let facets = Facets::of(&write.state);
    sql.say("INSERT INTO sessions (")
        .say(MOVES)
        .say(", id, created, archived, deleted, agent, agent_version, environment) SELECT ")
        .bind(integer(write.state.tail), "bigint")
        .and(write.hash.to_vec(), "bytea")
        .and(write.epochs(), "text")
        .and(i64::from(STATE_VERSION), "bigint")
        .and(text(&*write.state)?, "text")
        .and(facets.status, "text")
        .and(write.state.id.to_string(), "text")
        .and(facets.created.0, "bigint")
        .and(facets.archived.map(|at| at.0), "bigint")
        .and(facets.deleted, "boolean")
        .and(name(facets.agent), "text")
        .and(i64::from(facets.agent_version), "bigint")
        .and(name(facets.environment), "text")
        .say(" WHERE true");
    Ok(())
}

/// Adds what else has to hold: claimants live, and what is named is there.
fn guards(sql: &mut Sql, write: &Write) {
    if !write.claimants.is_empty() {
        sql.say(" AND NOT EXISTS (SELECT 1 FROM processes p WHERE p.dead AND p.id = ANY(")
            .bind(write.claimants.clone(), "text[]")
            .say("))");
    }
    let guarded: Vec<&Receipt> = write.guarded().collect();
    if !guarded.is_empty() {
        yields(sql, &guarded);
    }
    if !write.objects.is_empty() {
        let (kinds, ids, revisions) = write.objects();
        let count = i64::try_from(ids.len()).unwrap_or(i64::MAX);
        sql.say(" AND (SELECT count(*) FROM resources r JOIN unnest(")
            .bind(kinds, "text[]")
            .and(ids, "text[]")
            .and(revisions, "bigint[]")
            .say(
                ") AS o (kind, id, revision) ON r.kind = o.kind AND r.id = o.id \
                 AND r.revision >= o.revision) = ",
            )
            .bind(count, "bigint");
    }
    if !write.sources.is_empty() {
        let count = i64::try_from(write.sources.len()).unwrap_or(i64::MAX);
        sql.say(" AND (SELECT count(*) FROM files f WHERE f.blob IS NOT NULL AND f.id = ANY(")
            .bind(write.sources.clone(), "text[]")
            .say(")) = ")
            .bind(count, "bigint");
    }
    if !write.begun.is_empty() {
        let count = i64::try_from(write.begun.len()).unwrap_or(i64::MAX);
        sql.say(
            " AND (SELECT count(*) FROM loose_blobs l WHERE l.process IS NOT NULL \
             AND l.blob = ANY(",
        )
        .bind(write.begun.clone(), "text[]")
        .say(")) = ")
        .bind(count, "bigint");
    }
}

/// Adds that no other attempt of a request was accepted; each is alone with it by now.
fn yields(sql: &mut Sql, receipts: &[&Receipt]) {
    let (mut prints, mut attempts, mut ats) = (vec![], vec![], vec![]);
    let (mut hows, mut sinces) = (vec![], vec![]);
    for receipt in receipts {
        let (how, since) = unless(receipt);
        prints.push(receipt.fingerprint.to_vec());
        attempts.push(i64::from(receipt.attempt));
        ats.push(receipt.at.0);
        hows.push(how);
        sinces.push(since);
    }
    sql.say(" AND NOT EXISTS (SELECT 1 FROM receipts r JOIN unnest(")
        .bind(prints, "bytea[]")
        .and(attempts, "bigint[]")
        .and(ats, "bigint[]")
        .and(hows, "bigint[]")
        .and(sinces, "bigint[]")
        .say(") AS g (print, attempt, at, how, since) ON r.fingerprint = g.print WHERE ")
        .say(YIELDS)
        .say(")");
}

/// Makes the statement of many appends that bring no more than records, leases and receipts.
pub(super) fn batch(writes: &[&Write]) -> Result<Sql, serde_json::Error> {
    let (mut nos, mut tails, mut hashes, mut fences) = (vec![], vec![], vec![], vec![]);
    let (mut to, mut sums, mut epochs_, mut states) = (vec![], vec![], vec![], vec![]);
    let (mut statuses, mut claimants) = (vec![], vec![]);
    for write in writes {
        let Some(before) = &write.before else {
            continue;
        };
        nos.push(before.no);
        tails.push(integer(before.state.tail));
        hashes.push(before.hash.to_vec());
        fences.push(epochs(&before.state));
        to.push(integer(write.state.tail));
        sums.push(write.hash.to_vec());
        epochs_.push(write.epochs());
        states.push(text(&*write.state)?);
        statuses.push(Facets::of(&write.state).status);
        let known = (!write.claimants.is_empty()).then(|| write.claimants.join(","));
        claimants.push(known);
    }
    // Everybody locks rows in this order: each row of the arrays, which are sorted, is looked up.
    let mut sql = Sql::new("WITH head AS (UPDATE sessions s SET (");
    sql.say(MOVES)
        .say(") = (w.to_tail, w.to_hash, w.to_epochs, ")
        .bind(i64::from(STATE_VERSION), "bigint")
        .say(", w.state, w.status) FROM unnest(")
        .bind(nos, "bigint[]")
        .and(tails, "bigint[]")
        .and(hashes, "bytea[]")
        .and(fences, "text[]")
        .and(to, "bigint[]")
        .and(sums, "bytea[]")
        .and(epochs_, "text[]")
        .and(states, "text[]")
        .and(statuses, "text[]")
        .and(claimants, "text[]")
        .say(
            ") AS w (no, tail, hash, epochs, to_tail, to_hash, to_epochs, state, status, \
             claimants) WHERE s.no = w.no AND s.tail = w.tail AND s.hash = w.hash \
             AND s.epochs = w.epochs AND NOT s.deleted \
             AND (w.claimants IS NULL OR NOT EXISTS (SELECT 1 FROM processes p \
             WHERE p.dead AND p.id = ANY(string_to_array(w.claimants, ',')))) RETURNING s.no)",
        );
    rest(&mut sql, writes, Join::Number);
    Ok(sql)
}

/// Adds records, leases and receipts, as far as there are any, and returns the number of each
/// session whose head moved.
fn rest(sql: &mut Sql, writes: &[&Write], join: Join) {
    let rows = |of: fn(&Write) -> Vec<Vec<Cell>>| -> Vec<Row> {
        let numbered = |write: &&Write| {
            // A new session's number is not known yet.
            let no = write.before.as_ref().map_or(0, |before| before.no);
            of(write).into_iter().map(move |cells| (no, cells))
        };
        writes.iter().flat_map(numbered).collect()
    };
    let (leases, receipts) = (rows(leases), rows(receipts));
    let told = writes.iter().all(|write| !write.records.is_empty());
    if told && leases.is_empty() && receipts.is_empty() {
        // What most appends are: their rows alone say that the head moved, which is the cheapest.
        insert(sql.say(" "), &RECORDS, rows(records), join);
        sql.say(" RETURNING session_no");
        return;
    }
    part(sql, &RECORDS, rows(records), join);
    part(sql, &THREADS, leases, join);
    part(sql, &RECEIPTS, receipts, join);
    sql.say(" SELECT no FROM head");
}

fn records(write: &Write) -> Vec<Vec<Cell>> {
    let row = |stored: &Stored| {
        let record = &stored.record;
        vec![
            Cell::Int(Some(integer(record.position))),
            Cell::Int(Some(record.thread.into())),
            Cell::Int(Some(record.at.0)),
            Cell::Bool(record.kind.is_public()),
            Cell::Text(Some(record.origin.to_string())),
            Cell::Text(Some(record.kind.text().to_owned())),
            Cell::Int(Some(record.version.into())),
            Cell::Text(record.event.map(|id| id.to_string())),
            Cell::Bytes(Some(record.digest.to_vec())),
            Cell::Bytes(Some(record.hash.to_vec())),
            Cell::Bytes(record.salt.map(|salt| salt.to_vec())),
            Cell::Int(stored.blob.map(integer)),
            Cell::Text(stored.inline().map(str::to_owned)),
        ]
    };
    write.records.iter().map(row).collect()
}

fn leases(write: &Write) -> Vec<Vec<Cell>> {
    let row = |(thread, lease): &(u32, Lease)| {
        vec![
            Cell::Int(Some((*thread).into())),
            Cell::Int(Some(integer(lease.epoch))),
            Cell::Int(Some(lease.attempts.into())),
            Cell::Text(lease.holder.map(|id| id.to_string())),
            Cell::Bool(lease.work),
            Cell::Int(lease.ready_at.map(|at| at.0)),
            Cell::Int(Some(write.state.at.0)),
            Cell::Int(lease.deadline.map(|at| at.0)),
        ]
    };
    write.leases.iter().map(row).collect()
}

fn receipts(write: &Write) -> Vec<Vec<Cell>> {
    let row = |receipt: &Receipt| {
        let columns = Columns::of(&receipt.reply);
        vec![
            Cell::Bytes(Some(receipt.fingerprint.to_vec())),
            Cell::Int(Some(receipt.attempt.into())),
            Cell::Int(Some(receipt.at.0)),
            Cell::Bool(receipt.written),
            Cell::Text(columns.body),
            Cell::Text(columns.session),
            Cell::Int(columns.first),
            Cell::Int(columns.last),
        ]
    };
    write.receipts.iter().map(row).collect()
}
