//! Whole sessions as lines of JSON: the form that `export` writes and `import` reads.

use std::borrow::Cow;

use outlast_protocol::{
    Micros,
    id::{EventId, SessionId},
};
use outlast_session::{Body, Formats, Json, Kind, Origin, Record};
use outlast_store::End;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::heads::{hex, unhex};

/// What the first line says.
pub(super) const FORMAT: &str = "outlast-sessions";

/// The version of the form that is written, and the only one that is read.
pub(super) const VERSION: u32 = 1;

/// A line of a file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub(super) enum Line<'a> {
    /// The first one.
    Format {
        /// [`FORMAT`].
        format: Cow<'a, str>,
        /// [`VERSION`].
        version: u32,
    },
    /// A session begins.
    Session {
        /// Which.
        session: SessionId,
    },
    /// A record of it.
    #[serde(borrow)]
    Record(Row<'a>),
    /// It ends.
    End {
        /// The position of its last record.
        tail: u64,
        /// The hash of its last record.
        hash: Cow<'a, str>,
    },
    /// The last one: a file without it was cut.
    Done {
        /// How many sessions there are.
        sessions: u64,
    },
}

/// A record as a line has it.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Row<'a> {
    position: u64,
    thread: u32,
    at: i64,
    #[serde(borrow)]
    origin: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    version: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<EventId>,
    #[serde(borrow)]
    digest: Cow<'a, str>,
    #[serde(borrow)]
    hash: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    salt: Option<String>,
    /// The exact bytes, as text within the line: none of them may be laid out anew.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    body: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    erased: bool,
    /// What is left of an erased body.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    remains: Option<Cow<'a, str>>,
}

impl<'a> Row<'a> {
    /// Makes the line of a record.
    pub(super) fn of(record: &'a Record) -> Self {
        let body = record.body.written();
        let body = body.map(|json| Cow::Borrowed(json.get()));
        Self {
            position: record.position,
            thread: record.thread,
            at: record.at.0,
            origin: record.origin.to_string().into(),
            kind: record.kind.text().into(),
            version: record.version,
            event: record.event,
            digest: hex(&record.digest).into(),
            hash: hex(&record.hash).into(),
            salt: record.salt.map(|salt| hex(&salt)),
            erased: body.is_none(),
            remains: record.body.is_erased().then(|| record.body.text().into()),
            body,
        }
    }

    /// Makes the record of a line.
    pub(super) fn record(self) -> Result<Record, String> {
        let of = |what: &str| format!("record {}: {what}", self.position);
        let raw = |text: Cow<'_, str>| {
            let raw = RawValue::from_string(text.into_owned());
            raw.map(Json::from).map_err(|_| of("its body is no JSON"))
        };
        let kind = Kind::parse(&self.kind).map_err(|error| of(&error.to_string()))?;
        let known = Formats::THIS.check(kind, self.version);
        known.map_err(|error| of(&error.to_string()))?;
        let body = match (self.body, self.remains) {
            (Some(text), None) if !self.erased => {
                let read = Formats::THIS.read(kind, self.version, raw(text)?);
                read.map_err(|error| of(&error.to_string()))?
            }
            (None, Some(text)) if self.erased => Body::Erased(raw(text)?),
            (None, None) if self.erased => Body::nothing(),
            (_, _) => return Err(of("it has no body, or is erased and has one")),
        };
        let salt = self.salt.as_deref().map(unhex);
        let salt = salt.map(|salt| salt.ok_or_else(|| of("`salt` is not 32 digits")));
        Ok(Record {
            position: self.position,
            thread: self.thread,
            at: Micros(self.at),
            origin: Origin::parse(&self.origin).ok_or_else(|| of("`origin` is not known"))?,
            kind,
            version: self.version,
            event: self.event,
            digest: unhex(&self.digest).ok_or_else(|| of("`digest` is not 64 digits"))?,
            hash: unhex(&self.hash).ok_or_else(|| of("`hash` is not 64 digits"))?,
            salt: salt.transpose()?,
            body,
        })
    }
}

/// Makes the line that ends a session.
pub(super) fn end(end: End) -> Line<'static> {
    let (tail, hash) = (end.tail, hex(&end.hash).into());
    Line::End { tail, hash }
}
