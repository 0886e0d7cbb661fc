//! The shapes that bodies of records had, have, and will have.
//!
//! A body is written in the newest shape of its kind and stays as it was written for ever: the chain
//! covers its bytes. What is read is the shape of today; a body of an older version is brought there
//! step by step, and one of the future is refused by name.

use crate::{Json, Kind, record::Body};

/// How bodies of a kind changed from one version to the next.
///
/// Most changes need none: a field that is added with a default reads old bodies as they are.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The kind; that of an arrival changes with that of its event.
    pub kind: Kind,
    /// Makes a body of the next version.
    pub next: fn(&str) -> Result<Json, serde_json::Error>,
}

/// The versions that a program knows: from 1, one more for each change of a kind, in order.
#[derive(Clone, Copy, Debug)]
pub struct Formats(&'static [Change]);

/// A body cannot be read by this version.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum UnknownFormat {
    /// It is from the future, or from nowhere.
    #[error(
        "record kind `{kind}` in version {version} is not known to this version, which knows it up \
         to version {known}"
    )]
    Version {
        /// The kind.
        kind: Kind,
        /// The version that was found.
        version: u16,
        /// The newest that is known.
        known: u16,
    },
    /// It is not what its version says.
    #[error("a body of record kind `{kind}` is not of version {version}: {reason}")]
    Shape {
        /// The kind.
        kind: Kind,
        /// The version it should be of.
        version: u16,
        /// What does not fit.
        reason: String,
    },
}

impl Formats {
    /// What this program writes and reads.
    pub const THIS: Self = Self(&[]);

    /// Makes the formats of another program: those of a test.
    pub const fn new(changes: &'static [Change]) -> Self {
        Self(changes)
    }

    /// Returns the version that bodies of a kind are written in.
    pub fn version(&self, kind: Kind) -> u16 {
        let count = u16::try_from(self.changes(kind).count()).unwrap_or(u16::MAX);
        count.saturating_add(1)
    }

    /// Refuses a version that is not known.
    ///
    /// # Errors
    ///
    /// [`UnknownFormat::Version`], naming both.
    pub fn check(&self, kind: Kind, version: u16) -> Result<(), UnknownFormat> {
        let known = self.version(kind);
        if (1..=known).contains(&version) {
            return Ok(());
        }
        Err(UnknownFormat::Version {
            kind,
            version,
            known,
        })
    }

    /// Takes a body as it was written, and brings it to the shape of today.
    ///
    /// # Errors
    ///
    /// If its version is not known, or it is not of that version.
    pub fn read(&self, kind: Kind, version: u16, written: Json) -> Result<Body, UnknownFormat> {
        self.check(kind, version)?;
        let mut now = None;
        for (from, change) in (1_u16..).zip(self.changes(kind)) {
            if from < version {
                continue;
            }
            let before = now.as_ref().unwrap_or(&written);
            let next = (change.next)(before.get()).map_err(|error| UnknownFormat::Shape {
                kind,
                version: from,
                reason: error.to_string(),
            })?;
            now = Some(next);
        }
        Ok(match now {
            Some(now) => Body::Older { written, now },
            None => Body::Json(written),
        })
    }

    /// Returns the changes of a kind, the oldest first.
    fn changes(&self, kind: Kind) -> impl Iterator<Item = &Change> {
        let kind = kind.announces().unwrap_or(kind);
        self.0.iter().filter(move |change| change.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Version 1 had `a`, version 2 `b`, version 3 has `c`.
    const LATER: Formats = Formats::new(&[
        Change {
            kind: Kind::UserMessage,
            next: |text| Ok(crate::json(&json!({ "b": field(text, "a")? }))),
        },
        Change {
            kind: Kind::UserMessage,
            next: |text| Ok(crate::json(&json!({ "c": field(text, "b")? }))),
        },
    ]);

    fn field(text: &str, name: &str) -> Result<u64, serde_json::Error> {
        let value: std::collections::BTreeMap<String, u64> = serde_json::from_str(text)?;
        let found = value.get(name).copied();
        found.ok_or_else(|| serde::de::Error::custom(format!("no `{name}`")))
    }

    fn read(version: u16, body: serde_json::Value) -> Result<Body, UnknownFormat> {
        LATER.read(Kind::ArrivedMessage, version, crate::json(&body))
    }

    #[test]
    fn every_version_reads_as_that_of_today() {
        for (version, body) in [
            (1, json!({ "a": 7 })),
            (2, json!({ "b": 7 })),
            (3, json!({ "c": 7 })),
        ] {
            let read = read(version, body.clone()).unwrap();
            assert_eq!(read.text(), r#"{"c":7}"#, "of version {version}");
            assert_eq!(read.written().unwrap().get(), body.to_string());
        }
        assert_eq!(LATER.version(Kind::UserMessage), 3);
        assert_eq!(LATER.version(Kind::Claimed), 1);
    }

    #[test]
    fn what_is_not_known_is_named() {
        let future = Formats::THIS.check(Kind::Claimed, 2).unwrap_err();
        assert_eq!(
            future.to_string(),
            "record kind `x.claimed` in version 2 is not known to this version, which knows it up to \
             version 1"
        );
        assert!(Formats::THIS.check(Kind::Claimed, 0).is_err());
        let shape = read(1, json!({ "b": 7 })).unwrap_err().to_string();
        assert_eq!(
            shape,
            "a body of record kind `x.arrived.user.message` is not of version 1: no `a`"
        );
    }
}
