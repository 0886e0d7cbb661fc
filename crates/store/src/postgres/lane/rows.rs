//! Rows that go with an append, in the two forms that a statement can be given them.

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::super::sql::Sql;

/// Rows up to which each value is one of its own. Taking arrays apart costs as much as a few
/// appends, whatever they hold.
const FEW: usize = 4;

/// How rows find their session among the heads that moved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Join {
    /// There is one head.
    Only,
    /// By number.
    Number,
}

/// Where rows go.
#[derive(Debug)]
pub(super) struct Table {
    /// What the part of the statement is called.
    pub(super) part: &'static str,
    pub(super) table: &'static str,
    /// The column that holds the session's number, if there is one.
    pub(super) key: Option<&'static str>,
    pub(super) columns: &'static [&'static str],
    /// What is done where a row is there already.
    pub(super) conflict: &'static str,
}

/// A value, or none, of a type.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Int(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    Bool(bool),
}

impl Cell {
    fn kind(&self) -> &'static str {
        match self {
            Self::Int(_) => "bigint",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytea",
            Self::Bool(_) => "boolean",
        }
    }
}

impl ToSql for Cell {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Int(value) => value.to_sql(kind, out),
            Self::Text(value) => value.to_sql(kind, out),
            Self::Bytes(value) => value.to_sql(kind, out),
            Self::Bool(value) => value.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::TEXT, Type::BYTEA, Type::BOOL].contains(kind)
    }

    to_sql_checked!();
}

/// A row with the number of its session; a new one's is not known yet.
pub(super) type Row = (i64, Vec<Cell>);

/// Adds a part that inserts rows; nothing without any.
pub(super) fn part(sql: &mut Sql, table: &Table, rows: Vec<Row>, join: Join) {
    if rows.is_empty() {
        return;
    }
    sql.say(", ").say(table.part).say(" AS (");
    insert(sql, table, rows, join);
    sql.say(")");
}

/// Inserts rows.
pub(super) fn insert(sql: &mut Sql, table: &Table, rows: Vec<Row>, join: Join) {
    sql.say("INSERT INTO ").say(table.table).say(" (");
    if let Some(key) = table.key {
        sql.say(key).say(", ");
    }
    list(sql, "", table.columns);
    sql.say(") SELECT ");
    if table.key.is_some() {
        sql.say(match join {
            Join::Only => "head.no, ",
            Join::Number => "r.no, ",
        });
    }
    list(sql, "r.", table.columns);
    sql.say(" FROM ");
    match join {
        Join::Only => {
            let rows: Vec<Vec<Cell>> = rows.into_iter().map(|(_, cells)| cells).collect();
            if rows.len() <= FEW {
                values(sql, rows);
            } else {
                unnest(sql, rows);
            }
            sql.say(" AS r (");
            list(sql, "", table.columns);
            sql.say(") CROSS JOIN head");
        }
        Join::Number => {
            let numbered = rows.into_iter().map(|(no, cells)| {
                let number = std::iter::once(Cell::Int(Some(no)));
                number.chain(cells).collect()
            });
            unnest(sql, numbered.collect());
            sql.say(" AS r (no, ");
            list(sql, "", table.columns);
            // A question and not a join: it is put to a table of hashes, and these sessions may not
            // join by one.
            sql.say(") WHERE (r.no IN (SELECT head.no FROM head)) IS TRUE");
        }
    }
    sql.say(table.conflict);
}

fn list(sql: &mut Sql, prefix: &str, columns: &[&str]) {
    for (at, column) in columns.iter().enumerate() {
        sql.say(if at == 0 { "" } else { ", " });
        sql.say(prefix).say(column);
    }
}

/// Adds rows as they are.
fn values(sql: &mut Sql, rows: Vec<Vec<Cell>>) {
    for (at, row) in rows.into_iter().enumerate() {
        sql.say(if at == 0 { "(VALUES (" } else { "), (" });
        for (at, cell) in row.into_iter().enumerate() {
            sql.say(if at == 0 { "" } else { ", " });
            let kind = cell.kind();
            sql.bind(cell, kind);
        }
    }
    sql.say("))");
}

/// Adds rows as an array for each column.
fn unnest(sql: &mut Sql, rows: Vec<Vec<Cell>>) {
    let mut columns: Vec<Vec<Cell>> = Vec::new();
    for row in rows {
        columns.resize_with(row.len(), Vec::new);
        for (column, cell) in columns.iter_mut().zip(row) {
            column.push(cell);
        }
    }
    sql.say("unnest(");
    for (at, column) in columns.into_iter().enumerate() {
        sql.say(if at == 0 { "" } else { ", " });
        let kind = column.first().map_or("text", Cell::kind);
        sql.bind(column, &format!("{kind}[]"));
    }
    sql.say(")");
}
