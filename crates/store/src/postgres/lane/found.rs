//! What has to be looked up before some groups can be written, in one flight for all of them.

use std::collections::{HashMap, HashSet};

use outlast_protocol::{
    Micros,
    id::{EventId, FileId, ProcessId},
};

use super::super::{
    connect::{Connection, flight},
    fault::Fault,
    rows::{array, record_columns, small, stored},
    sql::Sql,
};
use crate::{
    AppendError, Blob, Receipt, Reply, Unless,
    stored::{Stored, event_id, file_id, integer, process_id},
};

/// What is looked for.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    records: (Vec<i64>, Vec<i64>),
    events: (Vec<i64>, Vec<String>),
    objects: (Vec<&'static str>, Vec<String>),
    sources: Vec<String>,
    begun: Vec<String>,
    processes: Vec<String>,
    receipts: Vec<Vec<u8>>,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    records: HashMap<(i64, u64), Stored>,
    /// Whether a record of the event is a public one.
    events: HashMap<(i64, EventId), bool>,
    objects: HashMap<(String, String), i64>,
    sources: HashSet<FileId>,
    begun: HashSet<String>,
    dead: HashSet<ProcessId>,
    receipts: HashMap<[u8; 32], Receipt>,
}

impl Wanted {
    pub(super) fn record(&mut self, no: i64, position: u64) {
        self.records.0.push(no);
        self.records.1.push(integer(position));
    }

    pub(super) fn event(&mut self, no: i64, event: EventId) {
        self.events.0.push(no);
        self.events.1.push(event.to_string());
    }

    pub(super) fn objects(&mut self, objects: &[(&'static str, String, i64)]) {
        for (kind, id, _) in objects {
            self.objects.0.push(kind);
            self.objects.1.push(id.clone());
        }
    }

    pub(super) fn sources(&mut self, sources: &[FileId]) {
        self.sources.extend(sources.iter().map(ToString::to_string));
    }

    pub(super) fn begun(&mut self, blob: Option<&Blob>) {
        self.begun.extend(blob.map(ToString::to_string));
    }

    pub(super) fn process(&mut self, process: ProcessId) {
        self.processes.push(process.to_string());
    }

    pub(super) fn receipt(&mut self, receipt: &Receipt) {
        self.receipts.push(receipt.fingerprint.to_vec());
    }

    /// Makes the queries, and says what each is for.
    fn queries(self, now: Micros) -> Vec<(Kind, Sql)> {
        let mut queries = Vec::new();
        if !self.records.0.is_empty() {
            let mut sql = Sql::new(concat!(
                "SELECT ",
                record_columns!(),
                ", r.session_no FROM unnest("
            ));
            sql.bind(self.records.0, "bigint[]")
                .and(self.records.1, "bigint[]")
                .say(
                    ") AS w (no, position) JOIN records r ON r.session_no = w.no \
                     AND r.position = w.position",
                );
            queries.push((Kind::Records, sql));
        }
        if !self.events.0.is_empty() {
            let mut sql = Sql::new("SELECT r.session_no, r.event, r.public FROM unnest(");
            sql.bind(self.events.0, "bigint[]")
                .and(self.events.1, "text[]")
                .say(
                    ") AS w (no, event) JOIN records r ON r.session_no = w.no \
                     AND r.event = w.event",
                );
            queries.push((Kind::Events, sql));
        }
        if !self.objects.0.is_empty() {
            let mut sql = Sql::new("SELECT r.kind, r.id, r.revision FROM unnest(");
            sql.bind(self.objects.0, "text[]")
                .and(self.objects.1, "text[]")
                .say(") AS w (kind, id) JOIN resources r ON r.kind = w.kind AND r.id = w.id");
            queries.push((Kind::Objects, sql));
        }
        if !self.sources.is_empty() {
            let mut sql = Sql::new("SELECT f.id FROM files f WHERE f.id = ANY(");
            sql.bind(self.sources, "text[]")
                .say(") AND f.blob IS NOT NULL AND (f.expires IS NULL OR f.expires > ")
                .bind(now.0, "bigint")
                .say(")");
            queries.push((Kind::Sources, sql));
        }
        if !self.begun.is_empty() {
            let mut sql = Sql::new("SELECT l.blob FROM loose_blobs l WHERE l.blob = ANY(");
            sql.bind(self.begun, "text[]")
                .say(") AND l.process IS NOT NULL");
            queries.push((Kind::Begun, sql));
        }
        if !self.processes.is_empty() {
            let mut sql = Sql::new("SELECT p.id FROM processes p WHERE p.dead AND p.id = ANY(");
            sql.bind(self.processes, "text[]").say(")");
            queries.push((Kind::Processes, sql));
        }
        if !self.receipts.is_empty() {
            let mut sql = Sql::new(
                "SELECT r.fingerprint, r.attempt, r.at, r.written FROM receipts r \
                 WHERE r.fingerprint = ANY(",
            );
            sql.bind(self.receipts, "bytea[]").say(")");
            queries.push((Kind::Receipts, sql));
        }
        queries
    }

    /// Looks it all up.
    pub(super) async fn find(self, connection: &Connection, now: Micros) -> Result<Found, Fault> {
        let queries = self.queries(now);
        let mut found = Found::default();
        if queries.is_empty() {
            return Ok(found);
        }
        let mut statements = Vec::with_capacity(queries.len());
        for (_, sql) in &queries {
            statements.push(connection.prepare(&sql.text).await?);
        }
        let sent = queries
            .iter()
            .zip(&statements)
            .map(|((_, sql), statement)| connection.sent(statement, sql.values()));
        let answers = flight(sent.collect()).await;
        for ((kind, _), rows) in queries.iter().zip(answers) {
            for row in rows? {
                found.add(*kind, &row)?;
            }
        }
        Ok(found)
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Records,
    Events,
    Objects,
    Sources,
    Begun,
    Processes,
    Receipts,
}

impl Found {
    fn add(&mut self, kind: Kind, row: &tokio_postgres::Row) -> Result<(), Fault> {
        match kind {
            Kind::Records => {
                let one = stored(row)?;
                let key = (row.try_get(12)?, one.record.position);
                self.records.insert(key, one);
            }
            Kind::Events => {
                let key = (row.try_get(0)?, event_id(row.try_get(1)?)?);
                let public: bool = row.try_get(2)?;
                *self.events.entry(key).or_default() |= public;
            }
            Kind::Objects => {
                let key = (row.try_get(0)?, row.try_get(1)?);
                self.objects.insert(key, row.try_get(2)?);
            }
            Kind::Sources => {
                self.sources.insert(file_id(row.try_get(0)?)?);
            }
            Kind::Begun => {
                self.begun.insert(row.try_get(0)?);
            }
            Kind::Processes => {
                self.dead.insert(process_id(row.try_get(0)?)?);
            }
            Kind::Receipts => {
                let fingerprint = array(row.try_get(0)?)?;
                let known = Receipt {
                    fingerprint,
                    attempt: small(row.try_get(1)?)?,
                    at: Micros(row.try_get(2)?),
                    written: row.try_get(3)?,
                    // Nobody asks for it here.
                    reply: Reply::Body(String::new()),
                    unless: Unless::Never,
                };
                self.receipts.insert(fingerprint, known);
            }
        }
        Ok(())
    }

    pub(super) fn record(&self, no: i64, position: u64) -> Option<&Stored> {
        self.records.get(&(no, position))
    }

    /// Tells whether an event stands in a log, and if so, whether in its place.
    pub(super) fn event(&self, no: i64, event: EventId) -> Option<bool> {
        self.events.get(&(no, event)).copied()
    }

    /// Tells whether another attempt of a request is known to be accepted.
    pub(super) fn answers(&self, receipt: &Receipt) -> bool {
        let known = self.receipts.get(&receipt.fingerprint);
        known.is_some_and(|known| receipt.yields_to(known))
    }

    pub(super) fn is_dead(&self, process: ProcessId) -> bool {
        self.dead.contains(&process)
    }

    /// Checks that the blob which a proposal names was not given up.
    pub(super) fn check_begun(&self, blob: Option<&Blob>) -> Result<(), AppendError> {
        match blob.map(ToString::to_string) {
            Some(blob) if !self.begun.contains(&blob) => Err(AppendError::Missing(blob)),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that what a proposal names is there.
    pub(super) fn check(
        &self,
        objects: &[(&'static str, String, i64)],
        sources: &[FileId],
    ) -> Result<(), AppendError> {
        for (kind, id, revision) in objects {
            let known = self.objects.get(&((*kind).to_owned(), id.clone()));
            if known.is_none_or(|known| known < revision) {
                return Err(AppendError::Missing(id.clone()));
            }
        }
        match sources.iter().find(|source| !self.sources.contains(source)) {
            Some(source) => Err(AppendError::Missing(source.to_string())),
            None => Ok(()),
        }
    }
}
