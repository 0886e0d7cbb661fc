//! Who did what, on `SQLite`.

use async_trait::async_trait;
use outlast_protocol::{
    Micros,
    audit::{AuditEntry, Ended, Entry},
};
use rusqlite::{Connection, Row, ToSql, params, params_from_iter};

use super::{Sqlite, fault::Fault, listing::Conditions, resources::Written};
use crate::{
    AuditLine, AuditLog, AuditPage, AuditQuery, Order, ReadError, Trim, WriteError,
    stored::{self, integer, natural, small},
};

/// Entries that one transaction removes.
const CHUNK: usize = 2_000;

const COLUMNS: &str = "a.no, a.at, a.actor, a.action, coalesce(o.subject, a.subject), a.request, \
                       coalesce(o.outcome, a.outcome), coalesce(o.status, a.status), a.details";

#[async_trait]
impl AuditLog for Sqlite {
    async fn audit(&self, lines: Vec<AuditLine>) -> Result<(), WriteError> {
        // They are the first of whatever transaction begins next.
        Ok(self.queue.push_audit(lines)?)
    }

    async fn audit_log(&self, query: &AuditQuery) -> Result<AuditPage, ReadError> {
        let query = query.clone();
        self.readers.read(move |tx| list(tx, &query)).await
    }
}

#[async_trait]
impl Trim for Sqlite {
    async fn trim(&self, before: Micros, entry: Entry) -> Result<u64, WriteError> {
        let (mut gone, mut entry) = (0, entry.with("before", before.to_string()));
        loop {
            let mut said = entry.clone();
            let chunk = self
                .background(move |tx| trim(tx, before, &mut said))
                .await?;
            gone += chunk;
            if chunk < CHUNK as u64 {
                return Ok(gone);
            }
            entry.at = self.room.seams.clock.now();
        }
    }
}

/// Writes lines.
pub(super) fn write(tx: &Connection, lines: &[AuditLine]) -> Result<(), Fault> {
    for line in lines {
        match line {
            AuditLine::Entry(entry) => add(tx, entry)?,
            AuditLine::Ended(ended) => end(tx, ended)?,
        }
    }
    Ok(())
}

fn add(tx: &Connection, entry: &Entry) -> Result<(), Fault> {
    tx.prepare_cached(
        "INSERT INTO audit (at, actor, action, subject, request, outcome, status, details) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        entry.at.0,
        entry.actor.to_string(),
        entry.action,
        entry.subject_id,
        entry.request_id.map(|id| id.to_string()),
        entry.outcome.map(|outcome| outcome.as_str()),
        entry.status,
        serde_json::to_string(&entry.details)?,
    ])?;
    Ok(())
}

fn end(tx: &Connection, ended: &Ended) -> Result<(), Fault> {
    tx.prepare_cached(
        "INSERT INTO audit_outcomes (request, outcome, status, subject) \
         VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
    )?
    .execute(params![
        ended.request_id.to_string(),
        ended.outcome.as_str(),
        ended.status,
        ended.subject_id,
    ])?;
    Ok(())
}

/// Removes some old entries; the entry that says so is written along.
fn trim(tx: &Connection, before: Micros, said: &mut Entry) -> Written<u64> {
    let old = "SELECT no FROM audit WHERE at < ?1 ORDER BY no LIMIT ?2";
    let values = params![before.0, stored::bound(CHUNK)];
    let text = format!(
        "DELETE FROM audit_outcomes WHERE request IN \
         (SELECT request FROM audit WHERE no IN ({old}))"
    );
    tx.prepare_cached(&text)?.execute(values)?;
    let text = format!("DELETE FROM audit WHERE no IN ({old})");
    let gone = tx.prepare_cached(&text)?.execute(values)? as u64;
    if gone > 0 {
        said.details.insert("entries".to_owned(), gone.into());
        add(tx, said)?;
    }
    Ok(Ok(gone))
}

fn list(connection: &Connection, query: &AuditQuery) -> Result<AuditPage, ReadError> {
    let (text, values) = statement(query);
    let mut statement = connection.prepare_cached(&text)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(read(row)?);
    }
    let more = items.len() > query.limit;
    items.truncate(query.limit);
    Ok(AuditPage { items, more })
}

fn statement(query: &AuditQuery) -> (String, Vec<Box<dyn ToSql>>) {
    let (order, side) = match query.order {
        Order::Forwards => ("ORDER BY a.no", "a.no > ?"),
        Order::Backwards => ("ORDER BY a.no DESC", "a.no < ?"),
    };
    let mut found = Conditions::default();
    found.fixed("1 = 1");
    if let Some(actor) = &query.actor {
        found.one("a.actor = ?", actor.clone());
    }
    if let Some(action) = &query.action {
        let values: Vec<Box<dyn ToSql>> = vec![Box::new(action.clone()), Box::new(action.clone())];
        found.many("substr(a.action, 1, length(?)) = ?".to_owned(), values);
    }
    if let Some(subject) = &query.subject {
        let values: Vec<Box<dyn ToSql>> =
            vec![Box::new(subject.clone()), Box::new(subject.clone())];
        let made = "a.no IN (SELECT no FROM audit WHERE subject = ? UNION SELECT e.no FROM \
                    audit_outcomes m JOIN audit e ON e.request = m.request WHERE m.subject = ?)";
        found.many(made.to_owned(), values);
    }
    if let Some(since) = query.since {
        found.one("a.at >= ?", since.0);
    }
    if let Some(until) = query.until {
        found.one("a.at <= ?", until.0);
    }
    if let Some(after) = query.after {
        found.one(side, integer(after));
    }
    let (condition, values) = found.finish(order, query.limit.saturating_add(1));
    let text = format!(
        "SELECT {COLUMNS} FROM audit a LEFT JOIN audit_outcomes o ON o.request = a.request \
         WHERE {condition}"
    );
    (text, values)
}

fn read(row: &Row<'_>) -> Result<AuditEntry, Fault> {
    let request: Option<String> = row.get(5)?;
    let outcome: Option<String> = row.get(6)?;
    let status: Option<i64> = row.get(7)?;
    let entry = Entry {
        at: Micros(row.get(1)?),
        actor: stored::actor(&row.get::<_, String>(2)?)?,
        action: row.get(3)?,
        subject_id: row.get(4)?,
        request_id: request.as_deref().map(stored::request_id).transpose()?,
        outcome: outcome.as_deref().map(stored::audit_outcome).transpose()?,
        status: status.map(small).transpose()?,
        details: serde_json::from_str(&row.get::<_, String>(8)?)?,
    };
    Ok(AuditEntry {
        position: natural(row.get(0)?),
        entry,
    })
}
