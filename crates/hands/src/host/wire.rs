//! What goes over the socket, apart from what the seam has already.

use std::{borrow::Cow, io, time::Duration};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Fence, Keep, Promise, files::Abilities};

/// The header that a packed layer's [`Sum`](crate::files::Sum) goes in.
pub(super) const SUM: &str = "x-outlast-sum";

/// The header that the bounds of a layer go in.
pub(super) const LIMITS: &str = "x-outlast-limits";

/// What a host says of itself.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct About {
    /// The version of the protocol that it speaks.
    pub version: u32,
    /// Its process.
    pub pid: u32,
    /// What isolation its hands have, in words.
    pub isolation: String,
    /// Why it can make no hand, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// After how long without a word from a server it ends, in milliseconds.
    pub orphan_ms: u64,
    /// Whether it takes no new hand and ends with its last one.
    #[serde(default)]
    pub draining: bool,
    /// What its hands have beside calls; one that does not say has everything.
    #[serde(default = "all")]
    pub abilities: Abilities,
}

const fn all() -> Abilities {
    Abilities::ALL
}

/// What a server may change of a host that runs: nothing else of its settings outlives a request.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Settings {
    pub(super) orphan_ms: u64,
}

/// Writes a duration.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What is known of a hand that lives.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Alive {
    pub(super) promise: Promise,
}

/// A call.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Asked<'a> {
    pub(super) thread: u32,
    pub(super) epoch: u64,
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) input: &'a RawValue,
}

impl Asked<'_> {
    /// Returns the right that it is asked with.
    pub(super) const fn fence(&self) -> Fence {
        Fence {
            thread: self.thread,
            epoch: self.epoch,
        }
    }
}

/// How a hand is to be ended.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Reap {
    pub(super) keep: Keep,
}

/// What is placed, apart from its path and its bytes.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Placed {
    pub(super) id: String,
    pub(super) bytes: u64,
}

/// An error of a disk or a stream.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Fault {
    kind: String,
    reason: String,
}

/// The kinds that mean something to whoever asked; all others are `other`.
const KINDS: [(&str, io::ErrorKind); 11] = [
    ("already_exists", io::ErrorKind::AlreadyExists),
    ("file_too_large", io::ErrorKind::FileTooLarge),
    ("invalid_data", io::ErrorKind::InvalidData),
    ("invalid_input", io::ErrorKind::InvalidInput),
    ("not_found", io::ErrorKind::NotFound),
    ("permission_denied", io::ErrorKind::PermissionDenied),
    ("quota_exceeded", io::ErrorKind::QuotaExceeded),
    ("resource_busy", io::ErrorKind::ResourceBusy),
    ("storage_full", io::ErrorKind::StorageFull),
    ("unexpected_eof", io::ErrorKind::UnexpectedEof),
    ("unsupported", io::ErrorKind::Unsupported),
];

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        let known = KINDS.iter().find(|(_, kind)| *kind == error.kind());
        Self {
            kind: known.map_or("other", |(name, _)| *name).to_owned(),
            reason: error.to_string(),
        }
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        let known = KINDS.iter().find(|(name, _)| *name == fault.kind);
        let kind = known.map_or(io::ErrorKind::Other, |(_, kind)| *kind);
        Self::new(kind, fault.reason)
    }
}

/// All that might mean something in a path or a query, `.` among it: `..` leads elsewhere.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// Writes a text so that it is one segment of a path, or one value of a query.
pub(super) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_errors_come_back() {
        for (_, kind) in KINDS {
            let back = io::Error::from(Fault::from(io::Error::new(kind, "words")));
            assert_eq!((back.kind(), back.to_string()), (kind, "words".to_owned()));
        }
        let odd = io::Error::from(Fault::from(io::Error::from(io::ErrorKind::AddrInUse)));
        assert_eq!(odd.kind(), io::ErrorKind::Other);
    }

    #[test]
    fn a_path_is_one_segment() {
        assert_eq!(escaped("a/../b c.txt"), "a%2F%2E%2E%2Fb%20c%2Etxt");
        assert_eq!(escaped("\u{e4}%\n"), "%C3%A4%25%0A");
    }
}
