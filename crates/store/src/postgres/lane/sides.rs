//! What only some appends bring: a changed configuration, mounts, hands, an end. Each of these
//! statements finds the head that its append made, or does nothing.

use outlast_protocol::id::ResourceId;
use outlast_session::{Erasure, State, body::Mounted};

use super::{super::sql::Sql, plan::Write};
use crate::{
    Blob,
    postgres::receipts::ALONE,
    projection::{Facets, name, text},
    stored::integer,
};

/// Where rows find the session of an append that was taken.
fn guard(sql: &mut Sql, write: &Write) {
    sql.say("s.id = ")
        .bind(write.state.id.to_string(), "text")
        .say(" AND s.hash = ")
        .bind(write.hash.to_vec(), "bytea");
}

/// Makes the statements that go with an append, in order.
pub(super) fn sides(write: &Write) -> Result<Vec<Sql>, serde_json::Error> {
    let before = write.before.as_ref().map(|before| &*before.state);
    let after = &*write.state;
    let mut sides = Vec::new();
    if let Some(known) = before {
        facets(&mut sides, write, known);
    }
    config(&mut sides, write, before)?;
    if after.deleted {
        let mut sql =
            Sql::new("DELETE FROM threads t USING sessions s WHERE t.session_no = s.no AND ");
        guard(&mut sql, write);
        sides.push(sql);
        drop_scope(&mut sides, write);
    } else {
        mounts(&mut sides, write, before);
    }
    checkpoints(&mut sides, write, before);
    erase(&mut sides, write);
    hands(&mut sides, write, before);
    Ok(sides)
}

/// Writes what sessions are listed by, beside the status.
fn facets(sides: &mut Vec<Sql>, write: &Write, known: &State) {
    let (now, known) = (Facets::of(&write.state), Facets::of(known));
    let status = now.status;
    if (Facets { status, ..known }) == now {
        return;
    }
    let mut sql = Sql::new(
        "UPDATE sessions s SET (created, archived, deleted, agent, agent_version, environment) = (",
    );
    sql.bind(now.created.0, "bigint")
        .and(now.archived.map(|at| at.0), "bigint")
        .and(now.deleted, "boolean")
        .and(name(now.agent), "text")
        .and(i64::from(now.agent_version), "bigint")
        .and(name(now.environment), "text")
        .say(") WHERE ");
    guard(&mut sql, write);
    sides.push(sql);
}

/// Writes the configuration, where it is another object than before.
fn config(
    sides: &mut Vec<Sql>,
    write: &Write,
    before: Option<&State>,
) -> Result<(), serde_json::Error> {
    let Some(config) = &write.state.config else {
        return Ok(());
    };
    let known = before.and_then(|before| before.config.as_ref());
    if known.is_some_and(|known| std::sync::Arc::ptr_eq(known, config)) {
        return Ok(());
    }
    let mut sql = Sql::new("INSERT INTO configs (session_no, body) SELECT s.no, ");
    sql.bind(text(&**config)?, "text")
        .say(" FROM sessions s WHERE ");
    guard(&mut sql, write);
    sql.say(" ON CONFLICT (session_no) DO UPDATE SET body = excluded.body");
    sides.push(sql);
    Ok(())
}

fn mounted_in(state: &State) -> &[Mounted] {
    let config = state.config.as_deref();
    config.map_or(&[], |config| &config.resources)
}

fn lacks(list: &[Mounted], id: ResourceId) -> bool {
    list.iter().all(|other| other.id != id)
}

/// Copies files that were mounted, and removes those that are not any more.
fn mounts(sides: &mut Vec<Sql>, write: &Write, before: Option<&State>) {
    let known = before.map_or(&[][..], mounted_in);
    let now = mounted_in(&write.state);
    for new in now.iter().filter(|new| lacks(known, new.id)) {
        copy(sides, write, new);
    }
    let gone = known.iter().filter(|old| lacks(now, old.id));
    let gone: Vec<String> = gone.map(|old| old.file.to_string()).collect();
    if !gone.is_empty() {
        let mut sql =
            Sql::new("WITH gone AS (DELETE FROM files f USING sessions s WHERE f.id = ANY(");
        sql.bind(gone, "text[]").say(") AND ");
        guard(&mut sql, write);
        loosen(sides, sql);
    }
}

/// Gives a session its copy of a file; the source is held since the append began.
fn copy(sides: &mut Vec<Sql>, write: &Write, new: &Mounted) {
    let mut sql = Sql::new(
        "INSERT INTO files (id, created, name, mime, bytes, downloadable, expires, scope, mounted, \
         path, version, blob) SELECT ",
    );
    sql.bind(new.file.to_string(), "text")
        .and(new.at.0, "bigint")
        .say(", f.name, f.mime, f.bytes, f.downloadable, NULL, s.id, true, NULL, NULL, f.blob ")
        .say("FROM files f, sessions s WHERE f.id = ")
        .bind(new.source.to_string(), "text")
        .say(" AND ");
    guard(&mut sql, write);
    sides.push(sql);
}

/// Removes all files of a session.
fn drop_scope(sides: &mut Vec<Sql>, write: &Write) {
    let mut sql =
        Sql::new("WITH gone AS (DELETE FROM files f USING sessions s WHERE f.scope = s.id AND ");
    guard(&mut sql, write);
    loosen(sides, sql);
}

/// Ends a statement that removes files, and loosens their blobs.
///
/// All are loosened and those that a file still names are taken back: so of two who let go of one
/// blob at the same time, the second waits for the first at the blob's row, and then knows.
fn loosen(sides: &mut Vec<Sql>, mut sql: Sql) {
    sql.say(
        " RETURNING f.blob) INSERT INTO loose_blobs (blob, process) SELECT DISTINCT blob, NULL \
         FROM gone WHERE blob IS NOT NULL ORDER BY blob \
         ON CONFLICT (blob) DO UPDATE SET process = NULL",
    );
    sides.push(sql);
    sides.push(Sql::new(
        "DELETE FROM loose_blobs l WHERE l.process IS NULL \
         AND EXISTS (SELECT 1 FROM files f WHERE f.blob = l.blob)",
    ));
}

/// Takes the note of a checkpoint that a log has come to name, and loosens what it needs no more.
fn checkpoints(sides: &mut Vec<Sql>, write: &Write, before: Option<&State>) {
    for new in Blob::needed_only_by(&write.state, before) {
        let mut sql = Sql::new("DELETE FROM loose_blobs l USING sessions s WHERE l.blob = ");
        sql.bind(new.to_string(), "text").say(" AND ");
        guard(&mut sql, write);
        sides.push(sql);
    }
    let Some(before) = before else { return };
    for old in Blob::needed_only_by(before, Some(&write.state)) {
        let mut sql = Sql::new("INSERT INTO loose_blobs (blob, process) SELECT ");
        sql.bind(old.to_string(), "text")
            .say(", NULL FROM sessions s WHERE ");
        guard(&mut sql, write);
        sql.say(" ON CONFLICT (blob) DO UPDATE SET process = NULL");
        sides.push(sql);
    }
}

/// Takes bodies and salts out of their rows, loosens their blobs, and drops what was made of them.
fn erase(sides: &mut Vec<Sql>, write: &Write) {
    if write.erasures.is_empty() {
        return;
    }
    let column = |erasure: &Erasure| integer(erasure.position);
    let positions: Vec<i64> = write.erasures.iter().map(column).collect();
    let mut sql = Sql::new(
        "INSERT INTO loose_blobs (blob, process) SELECT DISTINCT \
         'sessions/' || s.id || '/' || encode(r.digest, 'hex'), NULL FROM records r, sessions s \
         WHERE r.session_no = s.no AND r.blob IS NOT NULL AND r.position = ANY(",
    );
    sql.bind(positions.clone(), "bigint[]").say(") AND ");
    guard(&mut sql, write);
    sql.say(" ON CONFLICT (blob) DO UPDATE SET process = NULL");
    sides.push(sql);
    let left = |erasure: &Erasure| erasure.remains.get().to_owned();
    let left: Vec<String> = write.erasures.iter().map(left).collect();
    let mut sql = Sql::new(
        "UPDATE records r SET body = e.body, salt = NULL, blob = NULL FROM sessions s, unnest(",
    );
    sql.bind(positions, "bigint[]")
        .and(left, "text[]")
        .say(") AS e (position, body) WHERE r.session_no = s.no AND r.position = e.position AND ");
    guard(&mut sql, write);
    sides.push(sql);
    let mut sql =
        Sql::new("DELETE FROM snapshots n USING sessions s WHERE n.session_no = s.no AND ");
    guard(&mut sql, write);
    sides.push(sql);
}

/// Writes which hands a session names, where that changed.
fn hands(sides: &mut Vec<Sql>, write: &Write, before: Option<&State>) {
    let now = write.state.named_hands();
    if before.map_or(now.is_empty(), |before| before.named_hands() == now) {
        return;
    }
    let mut sql = Sql::new("DELETE FROM hands h USING sessions s WHERE h.session_no = s.no AND ");
    guard(&mut sql, write);
    sides.push(sql);
    let now: Vec<String> = now.iter().map(ToString::to_string).collect();
    let mut sql = Sql::new(
        "INSERT INTO hands (incarnation, session_no) SELECT h.incarnation, s.no FROM unnest(",
    );
    sql.bind(now, "text[]")
        .say(") AS h (incarnation), sessions s WHERE ");
    guard(&mut sql, write);
    sql.say(" ON CONFLICT (incarnation) DO UPDATE SET session_no = excluded.session_no");
    sides.push(sql);
}

/// Makes the statements that come before the appends of a transaction: they hold what these name,
/// so that it is still there when it is committed.
pub(super) fn holds(writes: &[&Write]) -> Vec<Sql> {
    let mut holds = Vec::new();
    let receipts = writes.iter().flat_map(|write| write.guarded());
    let prints: Vec<Vec<u8>> = receipts
        .map(|receipt| receipt.fingerprint.to_vec())
        .collect();
    if !prints.is_empty() {
        let mut sql = Sql::new(ALONE);
        sql.give(prints);
        holds.push(sql);
    }
    let mut objects: Vec<_> = writes.iter().flat_map(|write| &write.objects).collect();
    objects.sort();
    objects.dedup();
    if !objects.is_empty() {
        let kinds: Vec<&'static str> = objects.iter().map(|(kind, _, _)| *kind).collect();
        let ids: Vec<String> = objects.iter().map(|(_, id, _)| id.clone()).collect();
        let mut sql =
            Sql::new("SELECT 1 FROM resources r WHERE (r.kind, r.id) IN (SELECT * FROM unnest(");
        sql.bind(kinds, "text[]")
            .and(ids, "text[]")
            .say(")) ORDER BY r.kind, r.id FOR SHARE OF r");
        holds.push(sql);
    }
    let sources = writes.iter().flat_map(|write| write.sources.clone());
    let sources: Vec<String> = sources.collect();
    if !sources.is_empty() {
        let mut sql = Sql::new("SELECT 1 FROM files f WHERE f.id = ANY(");
        sql.bind(sources, "text[]")
            .say(") ORDER BY f.id FOR SHARE OF f");
        holds.push(sql);
    }
    let begun = writes.iter().flat_map(|write| write.begun.clone());
    let begun: Vec<String> = begun.collect();
    if !begun.is_empty() {
        let mut sql = Sql::new("SELECT 1 FROM loose_blobs l WHERE l.blob = ANY(");
        sql.bind(begun, "text[]")
            .say(") ORDER BY l.blob FOR UPDATE OF l");
        holds.push(sql);
    }
    holds
}
