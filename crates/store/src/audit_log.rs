//! The contract of the audit log: entries are added and read, and nothing else.

use std::fmt::Debug;

use async_trait::async_trait;
use outlast_protocol::{
    Micros,
    audit::{AuditEntry, Ended, Entry},
};

use crate::{Order, ReadError, WriteError};

/// Who did what.
///
/// Nothing here changes or removes an entry; what the operator keeps no longer goes by [`Trim`].
#[async_trait]
pub trait AuditLog: Debug + Send + Sync {
    /// Adds lines, in their order.
    ///
    /// Returns as soon as nothing that is written afterwards can be durable without them; so they
    /// need no sync of their own. Where they cannot be written yet they wait, and what is written
    /// next goes with them or not at all. If nothing is written afterwards, entries are durable after
    /// some hundredths of a second, and what came of them after about one.
    async fn audit(&self, lines: Vec<AuditLine>) -> Result<(), WriteError>;

    /// Lists entries by place, with what came of them.
    async fn audit_log(&self, query: &AuditQuery) -> Result<AuditPage, ReadError>;
}

/// Takes out what is old; for operators alone, so no [`Store`](crate::Store) has it.
#[async_trait]
pub trait Trim: Debug + Send + Sync {
    /// Removes entries from before a moment, and says so in an entry; returns how many went.
    ///
    /// Where nothing is old, nothing is written. What is removed counts in the entry, whose
    /// `details` get `entries` and `before`.
    async fn trim(&self, before: Micros, entry: Entry) -> Result<u64, WriteError>;
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq)]
pub enum AuditLine {
    /// An entry.
    Entry(Entry),
    /// What came of one, once known; only the first counts.
    Ended(Ended),
}

/// Which entries to list.
#[derive(Clone, Debug)]
pub struct AuditQuery {
    /// By this one, as text.
    pub actor: Option<String>,
    /// Whose operation begins so.
    pub action: Option<String>,
    /// Done to this, or what was made by them is this.
    pub subject: Option<String>,
    /// Not before.
    pub since: Option<Micros>,
    /// Not after.
    pub until: Option<Micros>,
    /// Which way.
    pub order: Order,
    /// Behind this place in that order.
    pub after: Option<u64>,
    /// At most so many.
    pub limit: usize,
}

/// A page of entries.
#[derive(Clone, Debug)]
pub struct AuditPage {
    /// The entries.
    pub items: Vec<AuditEntry>,
    /// Whether more follow in the same order.
    pub more: bool,
}
