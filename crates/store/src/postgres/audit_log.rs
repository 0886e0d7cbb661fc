//! Who did what, on Postgres.

use async_trait::async_trait;
use outlast_protocol::{
    Micros,
    audit::{AuditEntry, Ended, Entry},
};
use tokio_postgres::Row;

use super::{
    Postgres,
    conditions::{Conditions, Values},
    connect::{Connection, Value},
    fault::Fault,
    pool,
    resources::Written,
};
use crate::{
    AuditLine, AuditLog, AuditPage, AuditQuery, Order, ReadError, Trim, WriteError,
    stored::{self, bound, integer, natural, small},
};

/// Entries that one transaction removes.
const CHUNK: usize = 2_000;

const COLUMNS: &str = "a.no, a.at, a.actor, a.action, coalesce(o.subject, a.subject), a.request, \
                       coalesce(o.outcome, a.outcome), coalesce(o.status, a.status), a.details";

#[async_trait]
impl AuditLog for Postgres {
    /// Commits without a sync: what is committed later comes later in the database's own log, so
    /// whatever sync makes that durable has these lines before it.
    async fn audit(&self, lines: Vec<AuditLine>) -> Result<(), WriteError> {
        let connection = self.room.hasty.get().await?;
        Ok(write(&connection, &lines).await?)
    }

    async fn audit_log(&self, query: &AuditQuery) -> Result<AuditPage, ReadError> {
        list(&*self.pool.get().await?, query).await
    }
}

#[async_trait]
impl Trim for Postgres {
    async fn trim(&self, before: Micros, entry: Entry) -> Result<u64, WriteError> {
        let (mut gone, mut entry) = (0, entry.with("before", before.to_string()));
        loop {
            let chunk: u64 = pool::write!(self.pool, |tx| trim(tx, before, &entry))?;
            gone += chunk;
            if chunk < CHUNK as u64 {
                return Ok(gone);
            }
            entry.at = self.room.seams.clock.now();
        }
    }
}

/// Writes lines, in one statement for each kind.
async fn write(connection: &Connection, lines: &[AuditLine]) -> Result<(), Fault> {
    let entries = lines.iter().filter_map(|line| match line {
        AuditLine::Entry(entry) => Some(entry),
        AuditLine::Ended(_) => None,
    });
    add(connection, &entries.collect::<Vec<_>>()).await?;
    let ended = lines.iter().filter_map(|line| match line {
        AuditLine::Entry(_) => None,
        AuditLine::Ended(ended) => Some(ended),
    });
    end(connection, &ended.collect::<Vec<_>>()).await
}

async fn add(connection: &Connection, entries: &[&Entry]) -> Result<(), Fault> {
    if entries.is_empty() {
        return Ok(());
    }
    let text = "INSERT INTO audit (at, actor, action, subject, request, outcome, status, details) \
                SELECT l.at, l.actor, l.action, l.subject, l.request, l.outcome, l.status, l.details \
                FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], \
                $6::text[], $7::bigint[], $8::text[]) WITH ORDINALITY \
                AS l (at, actor, action, subject, request, outcome, status, details, place) \
                ORDER BY l.place";
    let column =
        |of: fn(&Entry) -> String| entries.iter().map(|entry| of(entry)).collect::<Vec<_>>();
    let maybe = |of: fn(&Entry) -> Option<String>| {
        entries.iter().map(|entry| of(entry)).collect::<Vec<_>>()
    };
    let details = entries
        .iter()
        .map(|entry| serde_json::to_string(&entry.details));
    let details: Vec<String> = details.collect::<Result<_, _>>()?;
    let values: [Value<'_>; 8] = [
        &entries.iter().map(|entry| entry.at.0).collect::<Vec<_>>(),
        &column(|entry| entry.actor.to_string()),
        &column(|entry| entry.action.clone()),
        &maybe(|entry| entry.subject_id.clone()),
        &maybe(|entry| entry.request_id.map(|id| id.to_string())),
        &maybe(|entry| entry.outcome.map(|outcome| outcome.as_str().to_owned())),
        &entries
            .iter()
            .map(|entry| entry.status.map(i64::from))
            .collect::<Vec<_>>(),
        &details,
    ];
    connection.run(text, &values).await?;
    Ok(())
}

async fn end(connection: &Connection, ended: &[&Ended]) -> Result<(), Fault> {
    if ended.is_empty() {
        return Ok(());
    }
    let text = "INSERT INTO audit_outcomes (request, outcome, status, subject) \
                SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) \
                ON CONFLICT DO NOTHING";
    let values: [Value<'_>; 4] = [
        &ended
            .iter()
            .map(|one| one.request_id.to_string())
            .collect::<Vec<_>>(),
        &ended
            .iter()
            .map(|one| one.outcome.as_str())
            .collect::<Vec<_>>(),
        &ended
            .iter()
            .map(|one| i64::from(one.status))
            .collect::<Vec<_>>(),
        &ended
            .iter()
            .map(|one| one.subject_id.clone())
            .collect::<Vec<_>>(),
    ];
    connection.run(text, &values).await?;
    Ok(())
}

/// Removes some old entries; the entry that says so is written along.
async fn trim(tx: &Connection, before: Micros, said: &Entry) -> Written<u64> {
    let text = "WITH old AS (DELETE FROM audit WHERE no IN \
                (SELECT no FROM audit WHERE at < $1 ORDER BY no LIMIT $2) RETURNING request), \
                ended AS (DELETE FROM audit_outcomes o USING old WHERE o.request = old.request) \
                SELECT count(*) FROM old";
    let row = tx.row(text, &[&before.0, &bound(CHUNK)]).await?;
    let gone = row.map_or(Ok(0), |row| row.try_get(0))?;
    let gone = natural(gone);
    if gone > 0 {
        add(tx, &[&said.clone().with("entries", gone)]).await?;
    }
    Ok(Ok(gone))
}

async fn list(connection: &Connection, query: &AuditQuery) -> Result<AuditPage, ReadError> {
    let (text, values) = statement(query);
    let rows = connection.rows(&text, &values.all()).await?;
    let items = rows.iter().take(query.limit).map(read);
    Ok(AuditPage {
        items: items.collect::<Result<_, _>>()?,
        more: rows.len() > query.limit,
    })
}

fn statement(query: &AuditQuery) -> (String, Values) {
    let (order, side) = match query.order {
        Order::Forwards => ("ORDER BY a.no", "a.no > ?"),
        Order::Backwards => ("ORDER BY a.no DESC", "a.no < ?"),
    };
    let mut found = Conditions::default();
    found.fixed("true");
    if let Some(actor) = &query.actor {
        found.one("a.actor = ?", actor.clone());
    }
    if let Some(action) = &query.action {
        found.one("starts_with(a.action, ?)", action.clone());
    }
    if let Some(subject) = &query.subject {
        let made = "a.no IN (SELECT no FROM audit WHERE subject = ? UNION SELECT e.no FROM \
                    audit_outcomes m JOIN audit e ON e.request = m.request WHERE m.subject = ?)";
        found.two(made, subject.clone(), subject.clone());
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

fn read(row: &Row) -> Result<AuditEntry, Fault> {
    let request: Option<&str> = row.try_get(5)?;
    let outcome: Option<&str> = row.try_get(6)?;
    let status: Option<i64> = row.try_get(7)?;
    let entry = Entry {
        at: Micros(row.try_get(1)?),
        actor: stored::actor(row.try_get(2)?)?,
        action: row.try_get(3)?,
        subject_id: row.try_get(4)?,
        request_id: request.map(stored::request_id).transpose()?,
        outcome: outcome.map(stored::audit_outcome).transpose()?,
        status: status.map(small).transpose()?,
        details: serde_json::from_str(row.try_get(8)?)?,
    };
    Ok(AuditEntry {
        position: natural(row.try_get(0)?),
        entry,
    })
}
