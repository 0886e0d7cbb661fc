//! The statement that an append is: the head moves if it is where it was expected, and what goes
//! with it is written from that.

use outlast_session::STATE_VERSION;

use super::{super::sql::Sql, plan::Write};
use crate::{
    Receipt,
    postgres::receipts::{Columns, YIELDS, unless},
    projection::{Facets, epochs, name, text},
    stored::integer,
};

/// Columns of a head that every append moves.
const MOVES: &str = "tail, hash, epochs, state_version, state, status";

/// How rows find their session among the heads that moved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Join {
    /// There is one head.
    Only,
    /// By number.
    Number,
}

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
    sql.say(" SELECT no FROM head");
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
    let mut sql = Sql::new("WITH want AS MATERIALIZED (SELECT * FROM unnest(");
    sql.bind(nos, "bigint[]")
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
             claimants)), \
             held AS MATERIALIZED (SELECT s.no FROM want w JOIN sessions s ON s.no = w.no \
             WHERE s.tail = w.tail AND s.hash = w.hash AND s.epochs = w.epochs AND NOT s.deleted \
             AND (w.claimants IS NULL OR NOT EXISTS (SELECT 1 FROM processes p \
             WHERE p.dead AND p.id = ANY(string_to_array(w.claimants, ',')))) \
             ORDER BY s.no FOR UPDATE OF s), \
             head AS (UPDATE sessions s SET (",
        )
        .say(MOVES)
        .say(") = (w.to_tail, w.to_hash, w.to_epochs, ")
        .bind(i64::from(STATE_VERSION), "bigint")
        .say(
            ", w.state, w.status) FROM want w JOIN held h ON h.no = w.no WHERE s.no = w.no \
             RETURNING s.no)",
        );
    rest(&mut sql, writes, Join::Number);
    sql.say(" SELECT no FROM head");
    Ok(sql)
}

/// Adds records, leases and receipts, as far as there are any.
fn rest(sql: &mut Sql, writes: &[&Write], join: Join) {
    if writes.iter().any(|write| !write.records.is_empty()) {
        records(sql, writes, join);
    }
    if writes.iter().any(|write| !write.leases.is_empty()) {
        leases(sql, writes, join);
    }
    if writes.iter().any(|write| !write.receipts.is_empty()) {
        receipts(sql, writes, join);
    }
}

/// Returns the number of a session for rows that go with it; a new one's is not known yet.
fn number(write: &Write) -> i64 {
    write.before.as_ref().map_or(0, |before| before.no)
}

fn joined(sql: &mut Sql, name: &str, columns: &str, join: Join) {
    sql.say(") AS ")
        .say(name)
        .say(" (no, ")
        .say(columns)
        .say(")");
    match join {
        Join::Only => sql.say(" CROSS JOIN head"),
        Join::Number => sql.say(" JOIN head ON head.no = ").say(name).say(".no"),
    };
}

/// Returns the records of a write, each with the number of its session.
fn numbered(write: &Write) -> impl Iterator<Item = (i64, &crate::stored::Stored)> {
    let no = number(write);
    write.records.iter().map(move |stored| (no, stored))
}

fn records(sql: &mut Sql, writes: &[&Write], join: Join) {
    let all = || writes.iter().copied().flat_map(numbered);
    let columns = "position, thread, at, public, origin, kind, version, event, digest, hash, salt, \
                   blob, body";
    let ints = |read: fn(&crate::stored::Stored) -> i64| -> Vec<i64> {
        all().map(|(_, stored)| read(stored)).collect()
    };
    sql.say(", rows AS (INSERT INTO records (session_no, ")
        .say(columns)
        .say(
            ") SELECT head.no, r.position, r.thread, r.at, r.public, r.origin, r.kind, r.version, \
             r.event, r.digest, r.hash, r.salt, r.blob, r.body FROM unnest(",
        )
        .bind(all().map(|(no, _)| no).collect::<Vec<i64>>(), "bigint[]")
        .and(ints(|stored| integer(stored.record.position)), "bigint[]")
        .and(ints(|stored| i64::from(stored.record.thread)), "bigint[]")
        .and(ints(|stored| stored.record.at.0), "bigint[]")
        .and(
            all()
                .map(|(_, stored)| stored.record.kind.is_public())
                .collect::<Vec<bool>>(),
            "boolean[]",
        )
        .and(
            all()
                .map(|(_, stored)| stored.record.origin.to_string())
                .collect::<Vec<String>>(),
            "text[]",
        )
        .and(
            all()
                .map(|(_, stored)| stored.record.kind.text())
                .collect::<Vec<&'static str>>(),
            "text[]",
        )
        .and(ints(|stored| i64::from(stored.record.version)), "bigint[]")
        .and(
            all()
                .map(|(_, stored)| stored.record.event.map(|id| id.to_string()))
                .collect::<Vec<Option<String>>>(),
            "text[]",
        )
        .and(
            all()
                .map(|(_, stored)| stored.record.digest.to_vec())
                .collect::<Vec<Vec<u8>>>(),
            "bytea[]",
        )
        .and(
            all()
                .map(|(_, stored)| stored.record.hash.to_vec())
                .collect::<Vec<Vec<u8>>>(),
            "bytea[]",
        )
        .and(
            all()
                .map(|(_, stored)| stored.record.salt.map(|salt| salt.to_vec()))
                .collect::<Vec<Option<Vec<u8>>>>(),
            "bytea[]",
        )
        .and(
            all()
                .map(|(_, stored)| stored.blob.map(integer))
                .collect::<Vec<Option<i64>>>(),
            "bigint[]",
        )
        .and(
            all()
                .map(|(_, stored)| stored.inline().map(str::to_owned))
                .collect::<Vec<Option<String>>>(),
            "text[]",
        );
    joined(sql, "r", columns, join);
    sql.say(")");
}

fn leases(sql: &mut Sql, writes: &[&Write], join: Join) {
    let (mut nos, mut threads, mut epochs, mut attempts) = (vec![], vec![], vec![], vec![]);
    let (mut holders, mut works, mut readies, mut sinces) = (vec![], vec![], vec![], vec![]);
    let mut deadlines = vec![];
    for write in writes {
        for (thread, lease) in &write.leases {
            nos.push(number(write));
            threads.push(i64::from(*thread));
            epochs.push(integer(lease.epoch));
            attempts.push(i64::from(lease.attempts));
            holders.push(lease.holder.map(|id| id.to_string()));
            works.push(lease.work);
            readies.push(lease.ready_at.map(|at| at.0));
            sinces.push(write.state.at.0);
            deadlines.push(lease.deadline.map(|at| at.0));
        }
    }
    let columns = "thread, epoch, attempts, holder, work, ready_at, since, deadline";
    sql.say(", leases AS (INSERT INTO threads (session_no, ")
        .say(columns)
        .say(
            ") SELECT head.no, l.thread, l.epoch, l.attempts, l.holder, l.work, l.ready_at, \
             l.since, l.deadline FROM unnest(",
        )
        .bind(nos, "bigint[]")
        .and(threads, "bigint[]")
        .and(epochs, "bigint[]")
        .and(attempts, "bigint[]")
        .and(holders, "text[]")
        .and(works, "boolean[]")
        .and(readies, "bigint[]")
        .and(sinces, "bigint[]")
        .and(deadlines, "bigint[]");
    joined(sql, "l", columns, join);
    sql.say(
        " ON CONFLICT (session_no, thread) DO UPDATE SET epoch = excluded.epoch, \
         attempts = excluded.attempts, holder = excluded.holder, work = excluded.work, \
         since = CASE WHEN threads.ready_at IS NULL THEN excluded.since ELSE threads.since END, \
         ready_at = excluded.ready_at, deadline = excluded.deadline)",
    );
}

fn receipts(sql: &mut Sql, writes: &[&Write], join: Join) {
    let (mut nos, mut prints, mut attempts, mut ats) = (vec![], vec![], vec![], vec![]);
    let (mut written, mut bodies, mut sessions) = (vec![], vec![], vec![]);
    let (mut firsts, mut lasts) = (vec![], vec![]);
    for write in writes {
        for receipt in &write.receipts {
            let columns = Columns::of(&receipt.reply);
            nos.push(number(write));
            prints.push(receipt.fingerprint.to_vec());
            attempts.push(i64::from(receipt.attempt));
            ats.push(receipt.at.0);
            written.push(receipt.written);
            bodies.push(columns.body);
            sessions.push(columns.session);
            firsts.push(columns.first);
            lasts.push(columns.last);
        }
    }
    let columns = "fingerprint, attempt, at, written, body, session, first, last";
    sql.say(", told AS (INSERT INTO receipts (")
        .say(columns)
        .say(
            ") SELECT t.fingerprint, t.attempt, t.at, t.written, t.body, t.session, t.first, \
             t.last FROM unnest(",
        )
        .bind(nos, "bigint[]")
        .and(prints, "bytea[]")
        .and(attempts, "bigint[]")
        .and(ats, "bigint[]")
        .and(written, "boolean[]")
        .and(bodies, "text[]")
        .and(sessions, "text[]")
        .and(firsts, "bigint[]")
        .and(lasts, "bigint[]");
    joined(sql, "t", columns, join);
    sql.say(
        " ON CONFLICT (fingerprint) DO UPDATE SET attempt = excluded.attempt, at = excluded.at, \
         written = excluded.written, body = excluded.body, session = excluded.session, \
         first = excluded.first, last = excluded.last)",
    );
}
