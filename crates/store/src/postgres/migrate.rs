//! Bringing the schema up to date, once, however many nodes start.

use super::{OpenError, connect::Connection};
use crate::Migrated;

/// Plain SQL files in the order they are applied; a file that was released never changes.
const MIGRATIONS: [(&str, &str); 8] = [
    (
        "0001_log",
        include_str!("../../migrations/postgres/0001_log.sql"),
    ),
    (
        "0002_files",
        include_str!("../../migrations/postgres/0002_files.sql"),
    ),
    (
        "0003_hands",
        include_str!("../../migrations/postgres/0003_hands.sql"),
    ),
    (
        "0004_processes",
        include_str!("../../migrations/postgres/0004_processes.sql"),
    ),
    (
        "0005_deadlines",
        include_str!("../../migrations/postgres/0005_deadlines.sql"),
    ),
    (
        "0006_keys",
        include_str!("../../migrations/postgres/0006_keys.sql"),
    ),
    (
        "0007_secrets",
        include_str!("../../migrations/postgres/0007_secrets.sql"),
    ),
    (
        "0008_audit",
        include_str!("../../migrations/postgres/0008_audit.sql"),
    ),
];

/// The version of the schema that they lead to.
pub(super) const SCHEMA: usize = MIGRATIONS.len();

/// The lock that whoever changes the schema holds; any number, always the same.
const LOCK: &str = "7160001";

/// Applies what is missing; whoever comes second waits and finds it done.
pub(super) async fn migrate(connection: &Connection) -> Result<Migrated, OpenError> {
    // The wait may be long, and a session that ends lets go by itself.
    let lock =
        format!("SET statement_timeout = 0; SET lock_timeout = 0; SELECT pg_advisory_lock({LOCK})");
    connection.batch(&lock).await?;
    let done = apply(connection).await;
    let unlock = format!(
        "SELECT pg_advisory_unlock({LOCK}); SET statement_timeout = '30s'; SET lock_timeout = '10s'"
    );
    connection.batch(&unlock).await?;
    done
}

async fn apply(connection: &Connection) -> Result<Migrated, OpenError> {
    let table = "CREATE TABLE IF NOT EXISTS outlast_migrations (version bigint PRIMARY KEY, \
                 name text NOT NULL, at timestamptz NOT NULL DEFAULT now())";
    connection.batch(table).await?;
    let from = found(connection).await?;
    if from > SCHEMA {
        let (found, known) = (from, SCHEMA);
        return Err(OpenError::Newer { found, known });
    }
    for (number, (name, text)) in (1_usize..).zip(MIGRATIONS).skip(from) {
        let step = format!(
            "BEGIN; {text}; INSERT INTO outlast_migrations (version, name) \
             VALUES ({number}, '{name}'); COMMIT"
        );
        if let Err(fault) = connection.batch(&step).await {
            drop(connection.batch("ROLLBACK").await);
            let reason = fault.to_string();
            return Err(OpenError::Migration { name, reason });
        }
        tracing::info!(name, "the database was brought up to date");
    }
    Ok(Migrated { from, to: SCHEMA })
}

/// Returns the version that a database has, and makes nothing: 0 where there are no tables.
pub(super) async fn found(connection: &Connection) -> Result<usize, super::Fault> {
    let known = "SELECT 1 WHERE to_regclass('outlast_migrations') IS NOT NULL";
    if !connection.exists(known, &[]).await? {
        return Ok(0);
    }
    let text = "SELECT coalesce(max(version), 0) FROM outlast_migrations";
    let row = connection.row(text, &[]).await?;
    let version: i64 = row.map_or(Ok(0), |row| row.try_get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}
