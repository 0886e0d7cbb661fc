//! Opening the database file: pragmas and migrations.

use std::{fs::OpenOptions, os::unix::fs::OpenOptionsExt as _, path::Path};

use rusqlite::{Connection, OpenFlags};
use rusqlite_migration::{M, Migrations};

use super::OpenError;

/// Statements that a connection keeps prepared.
const STATEMENTS: usize = 64;

/// Plain SQL files in the order they are applied; a file that was released never changes.
const MIGRATIONS: &[M<'_>] = &[
    M::up(include_str!("../../migrations/sqlite/0001_log.sql")),
    M::up(include_str!("../../migrations/sqlite/0002_files.sql")),
    M::up(include_str!("../../migrations/sqlite/0003_hands.sql")),
    M::up(include_str!("../../migrations/sqlite/0004_processes.sql")),
    M::up(include_str!("../../migrations/sqlite/0005_deadlines.sql")),
    M::up(include_str!("../../migrations/sqlite/0006_keys.sql")),
    M::up(include_str!("../../migrations/sqlite/0007_secrets.sql")),
    M::up(include_str!("../../migrations/sqlite/0008_audit.sql")),
];

/// The version of the schema that they lead to.
pub(super) const SCHEMA: usize = MIGRATIONS.len();

/// Makes the database file, for its owner alone; the files beside it get the same rights.
fn file(path: &Path) -> Result<(), OpenError> {
    let opened = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path);
    opened.map(drop).map_err(|error| OpenError::Io {
        path: path.to_owned(),
        error,
    })
}

/// Opens the connection that writes, and brings the schema up to date.
pub(super) fn writer(path: &Path) -> Result<Connection, OpenError> {
    file(path)?;
    let mut connection = Connection::open(path)?;
    // The first two only take effect before the first table exists, so they come first.
    connection.pragma_update(None, "page_size", 4096)?;
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // NORMAL would lose acknowledged appends with the power.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 1000)?;
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    connection.pragma_update(None, "cache_size", -8192)?;
    // What is erased or deleted is overwritten in the file.
    connection.pragma_update(None, "secure_delete", true)?;
    common(&connection)?;
    Migrations::from_slice(MIGRATIONS).to_latest(&mut connection)?;
    // A crash may have left what was erased in the log.
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(connection)
}

/// Returns the version of a file's schema; 0 if there is no file.
pub(super) fn version(path: &Path) -> Result<usize, OpenError> {
    if !path.exists() {
        return Ok(0);
    }
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(0))
}

/// Opens a connection that can only read.
pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    // Not READ_ONLY: a reader of a WAL writes to the shared memory beside it.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update(None, "cache_size", -2048)?;
    common(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Opens a connection that empties the log; it gives up early, for writers wait for it.
pub(super) fn scrubber(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    common(&connection)?;
    connection.pragma_update(None, "busy_timeout", 200)?;
    Ok(connection)
}

/// Opens a connection that leaves the database as it is, even where it is the last one.
pub(super) fn onlooker(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    common(&connection)?;
    Ok(connection)
}

fn common(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "busy_timeout", 5000)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

/// Returns how a statement would be run.
#[cfg(test)]
pub(super) fn plan(connection: &Connection, statement: &str) -> String {
    let mut explained = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {statement}"))
        .unwrap();
    let count = explained.parameter_count();
    let nothing = rusqlite::params_from_iter(vec![rusqlite::types::Null; count]);
    let rows = explained
        .query_map(nothing, |row| row.get::<_, String>(3))
        .unwrap();
    rows.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_hold_together() {
        assert_eq!(Migrations::from_slice(MIGRATIONS).validate(), Ok(()));
    }

    #[test]
    fn hands_of_older_databases_are_found() {
        let mut connection = Connection::open_in_memory().unwrap();
        let migrations = Migrations::from_slice(MIGRATIONS);
        migrations.to_version(&mut connection, 1).unwrap();
        let insert =
            "INSERT INTO sessions VALUES (?1, ?2, 1, x'00', 0, NULL, ?3, '', '', 1, '', 1, ?4)";
        for (no, deleted, state) in [
            (
                1,
                false,
                r#"{"hand":{"incarnation":"a"},"past_hands":["b","c"]}"#,
            ),
            (
                2,
                true,
                r#"{"hand":{"incarnation":"d"},"past_hands":["e"]}"#,
            ),
            (3, false, r#"{"hand":null,"past_hands":[]}"#),
            (4, false, r#"{"past_hands":["f"]}"#),
        ] {
            connection
                .execute(insert, (no, no.to_string(), deleted, state))
                .unwrap();
        }
        migrations.to_latest(&mut connection).unwrap();
        let text =
            "SELECT group_concat(incarnation || session_no, ' ' ORDER BY incarnation) FROM hands";
        let found: String = connection.query_row(text, [], |row| row.get(0)).unwrap();
        assert_eq!(found, "a1 b1 c1 f4");
    }

    #[test]
    fn only_the_owner_can_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("data");
        crate::lock::directory(&dir).unwrap();
        let connection = writer(&dir.join("a.db")).unwrap();
        connection
            .execute("UPDATE probes SET count = 7", [])
            .unwrap();
        let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let modes = [
            dir.clone(),
            dir.join("a.db"),
            dir.join("a.db-wal"),
            dir.join("a.db-shm"),
        ];
        assert_eq!(modes.map(mode), [0o700, 0o600, 0o600, 0o600]);
    }

    #[test]
    fn every_commit_is_synced_and_readers_cannot_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let writer = writer(&path).unwrap();
        let pragma = |name| writer.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        assert_eq!(pragma("synchronous").unwrap(), 2);
        assert_eq!(pragma("auto_vacuum").unwrap(), 2);
        let reader = reader(&path).unwrap();
        reader
            .execute("UPDATE probes SET count = 1", [])
            .unwrap_err();
    }
}
