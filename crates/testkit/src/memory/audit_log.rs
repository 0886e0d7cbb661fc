//! Who did what, in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use outlast_protocol::{
    Micros,
    audit::{AuditEntry, Ended, Entry},
    id::RequestId,
};
use outlast_store::{
    AuditLine, AuditLog, AuditPage, AuditQuery, Order, ReadError, Trim, WriteError,
};

use super::Memory;

/// Entries by their places, and what came of requests.
#[derive(Debug, Default)]
pub(super) struct Kept {
    entries: BTreeMap<u64, Entry>,
    ended: BTreeMap<RequestId, Ended>,
    last: u64,
}

impl Kept {
    fn add(&mut self, entry: Entry) {
        self.last += 1;
        self.entries.insert(self.last, entry);
    }

    /// Returns an entry with what came of it, and what it was done to besides what was made.
    fn shown(&self, position: u64, entry: &Entry) -> AuditEntry {
        let mut entry = entry.clone();
        let ended = entry.request_id.and_then(|id| self.ended.get(&id));
        if let Some(ended) = ended {
            entry.outcome = Some(ended.outcome);
            entry.status = Some(ended.status);
            entry.subject_id = ended.subject_id.clone().or(entry.subject_id);
        }
        AuditEntry { position, entry }
    }
}

#[async_trait]
impl AuditLog for Memory {
    async fn audit(&self, lines: Vec<AuditLine>) -> Result<(), WriteError> {
        let kept = &mut self.lock().audit;
        for line in lines {
            match line {
                AuditLine::Entry(entry) => kept.add(entry),
                AuditLine::Ended(ended) => {
                    kept.ended.entry(ended.request_id).or_insert(ended);
                }
            }
        }
        Ok(())
    }

    async fn audit_log(&self, query: &AuditQuery) -> Result<AuditPage, ReadError> {
        let inner = self.lock();
        let kept = &inner.audit;
        let pairs = kept.entries.iter();
        let mut items: Vec<AuditEntry> = pairs
            .map(|(position, entry)| (entry, kept.shown(*position, entry)))
            .filter(|(entry, shown)| fits(entry, shown, query))
            .map(|(_, shown)| shown)
            .collect();
        if query.order == Order::Backwards {
            items.reverse();
        }
        let more = items.len() > query.limit;
        items.truncate(query.limit);
        Ok(AuditPage { items, more })
    }
}

fn fits(entry: &Entry, shown: &AuditEntry, query: &AuditQuery) -> bool {
    let subject = |wanted: &String| {
        let known = [&entry.subject_id, &shown.entry.subject_id];
        known.into_iter().any(|id| id.as_ref() == Some(wanted))
    };
    query
        .actor
        .as_ref()
        .is_none_or(|actor| *actor == entry.actor.to_string())
        && query
            .action
            .as_ref()
            .is_none_or(|action| entry.action.starts_with(action))
        && query.subject.as_ref().is_none_or(subject)
        && query.since.is_none_or(|since| entry.at >= since)
        && query.until.is_none_or(|until| entry.at <= until)
        && query.after.is_none_or(|after| match query.order {
            Order::Forwards => shown.position > after,
            Order::Backwards => shown.position < after,
        })
}

#[async_trait]
impl Trim for Memory {
    async fn trim(&self, before: Micros, entry: Entry) -> Result<u64, WriteError> {
        let kept = &mut self.lock().audit;
        let count = kept.entries.len();
        let old = kept.entries.values().filter(|entry| entry.at < before);
        let requests: Vec<RequestId> = old.filter_map(|entry| entry.request_id).collect();
        kept.entries.retain(|_, entry| entry.at >= before);
        for request in requests {
            kept.ended.remove(&request);
        }
        let gone = (count - kept.entries.len()) as u64;
        if gone > 0 {
            let before = before.to_string();
            kept.add(entry.with("before", before).with("entries", gone));
        }
        Ok(gone)
    }
}
