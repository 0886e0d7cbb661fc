//! Records as they are stored, drafts before they have a place, and the view `fold` takes.

use std::{fmt, sync::Arc};

use outlast_protocol::{
    Micros,
    id::{ApiKeyId, EventId},
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::Kind;

/// Compact UTF-8 JSON, serialized once and never again.
pub type Json = Arc<RawValue>;

/// Serializes a body.
///
/// A body that cannot be serialized is a fault of this program; `null` stands in for it, and `fold`
/// refuses that by name where it reads the body.
pub fn json(body: &impl Serialize) -> Json {
    serde_json::value::to_raw_value(body)
        .unwrap_or_default()
        .into()
}

/// Who wrote a record.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Origin {
    /// A brain: `b:<epoch>:<seq>`.
    Brain {
        /// The lease it held.
        epoch: u64,
        /// Its place among the appends under that lease.
        seq: u64,
    },
    /// Kernel or gateway for a brain, by the event id of the request or call: `k:<key>`.
    Keyed(EventId),
    /// A client, by its key: `c:<api key id>`.
    Client(ApiKeyId),
    /// The server itself: `s`.
    Server,
}

impl Origin {
    /// Reads the stored text.
    pub fn parse(text: &str) -> Option<Self> {
        let (tag, rest) = text.split_once(':').unwrap_or((text, ""));
        match tag {
            "b" => {
                let (epoch, seq) = rest.split_once(':')?;
                Some(Self::Brain {
                    epoch: epoch.parse().ok()?,
                    seq: seq.parse().ok()?,
                })
            }
            "k" => EventId::parse(rest).map(Self::Keyed),
            "c" => ApiKeyId::parse(rest).map(Self::Client),
            "s" => Some(Self::Server),
            _ => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Brain { epoch, seq } => write!(f, "b:{epoch}:{seq}"),
            Self::Keyed(key) => write!(f, "k:{key}"),
            Self::Client(key) => write!(f, "c:{key}"),
            Self::Server => f.write_str("s"),
        }
    }
}

/// What a record holds.
#[derive(Clone, Debug)]
pub enum Body {
    /// The bytes.
    Json(Json),
    /// Bytes of an older version.
    Older {
        /// As they were written, which the chain covers.
        written: Json,
        /// As they are read today.
        now: Json,
    },
    /// Erased under the chain: what [`remains`](crate::remains()) left of it.
    Erased(Json),
}

impl Body {
    /// Returns a body of which nothing is left, or that is not at hand.
    pub fn nothing() -> Self {
        #[derive(Serialize)]
        struct Nothing {}
        Self::Erased(json(&Nothing {}))
    }

    /// Returns it in the shape of today, or what is left of it.
    pub fn json(&self) -> &Json {
        match self {
            Self::Json(json) | Self::Older { now: json, .. } | Self::Erased(json) => json,
        }
    }

    /// Returns the text of that.
    pub fn text(&self) -> &str {
        self.json().get()
    }

    /// Returns the bytes as they were written, which the chain covers, unless they are erased.
    pub fn written(&self) -> Option<&Json> {
        match self {
            Self::Json(json) | Self::Older { written: json, .. } => Some(json),
            Self::Erased(_) => None,
        }
    }

    /// Tells whether it was erased.
    pub fn is_erased(&self) -> bool {
        matches!(self, Self::Erased(_))
    }
}

/// One entry of a session's log.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its place, dense from 1.
    pub position: u64,
    /// The thread it belongs to; 0 is the primary.
    pub thread: u32,
    /// When it was appended; never earlier than the record before it.
    pub at: Micros,
    /// Who wrote it.
    pub origin: Origin,
    /// What it is.
    pub kind: Kind,
    /// The shape of the body.
    pub version: u16,
    /// The event's id, shared by an arrival and its place.
    pub event: Option<EventId>,
    /// What the body is worth without being known: BLAKE3 over salt and body.
    pub digest: [u8; 32],
    /// The chain up to and including this record.
    pub hash: [u8; 32],
    /// The salt of the digest; `None` once erased.
    pub salt: Option<[u8; 16]>,
    /// What it holds.
    pub body: Body,
}

impl Record {
    /// Returns what `fold` needs of it.
    pub fn entry(&self) -> Entry<'_> {
        Entry {
            position: self.position,
            thread: self.thread,
            at: self.at,
            origin: &self.origin,
            kind: self.kind,
            event: self.event,
            body: Some(self.body.text()),
        }
    }
}

/// A record that has no position, time or hash yet.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The thread it belongs to.
    pub thread: u32,
    /// What it is.
    pub kind: Kind,
    /// The event's id, for public kinds and arrivals.
    pub event: Option<EventId>,
    /// What it holds.
    pub body: DraftBody,
}

/// The body of a draft.
#[derive(Clone, Debug)]
pub enum DraftBody {
    /// New bytes.
    Json(Json),
    /// The salt, digest and body of an earlier record of the session.
    Copy(u64),
}

/// What `fold` looks at.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The record's place.
    pub position: u64,
    /// Its thread.
    pub thread: u32,
    /// Its time.
    pub at: Micros,
    /// Its writer.
    pub origin: &'a Origin,
    /// Its kind.
    pub kind: Kind,
    /// Its event id.
    pub event: Option<EventId>,
    /// Its body; absent while a copy is decided on, and never needed then.
    pub body: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_read_back() {
        let brain = Origin::Brain { epoch: 3, seq: 9 };
        assert_eq!(brain.to_string(), "b:3:9");
        assert_eq!(Origin::parse("b:3:9"), Some(brain));
        assert_eq!(Origin::parse("s"), Some(Origin::Server));
        for text in ["", "b:1", "k:x", "z:1"] {
            assert_eq!(Origin::parse(text), None, "{text}");
        }
    }
}
