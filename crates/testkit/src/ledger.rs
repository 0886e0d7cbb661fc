//! The log read a second time, without `fold`: what must hold in every log whatever was proposed.

#![expect(
    clippy::wildcard_enum_match_arm,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "most kinds of records have nothing to look at, and a record that cannot be read is a failure"
)]

mod calls;
mod compare;
mod inputs;
mod spans;
mod statuses;

use std::collections::{BTreeMap, BTreeSet};

use outlast_protocol::id::EventId;
use outlast_session::{Entry, Kind, Origin, Status};
use serde_json::Value;

pub use compare::compare;

/// A call as its public events tell it.
#[derive(Clone, Debug)]
pub struct Told {
    /// The number of the response that it came in.
    pub response: u64,
    /// Whether the client answers it.
    pub custom: bool,
    /// Whether a client is asked, for a result or for leave.
    pub asks: bool,
    /// Whether it may run.
    pub allowed: bool,
    /// Whether it is over.
    pub settled: bool,
    /// Where its result stands.
    pub result: Option<u64>,
}

/// What the records so far come to.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Inputs that arrived and have no place yet.
    pub waiting: Vec<(EventId, Kind)>,
    /// Inputs that have their place.
    pub placed: BTreeSet<EventId>,
    /// All calls, in the model's order.
    pub calls: Vec<(EventId, Told)>,
    /// The model request that has no end yet.
    pub span: Option<EventId>,
    /// All model requests, with the number of their ends.
    pub spans: BTreeMap<EventId, u32>,
    /// Model requests whose usage was told.
    pub counted: BTreeSet<EventId>,
    /// Input tokens of these.
    pub input: u64,
    /// Model requests that were answered.
    pub responses: BTreeSet<EventId>,
    /// How often something failed.
    pub errors: usize,
    /// The session's status as it was told last.
    pub session: Option<Status>,
    /// The primary thread's.
    pub thread: Option<Status>,
    /// Whether it rests for a client's answer.
    pub asked_idle: bool,
    /// The calls that clients were last told to answer.
    pub named: Vec<EventId>,
    /// A turn ended while inputs waited: the next must begin.
    pub stranded: bool,
    /// Results were told while the thread rested: what closes it must follow.
    pub resting: bool,
    /// The open span of a brain that lost its lease.
    pub orphan: Option<EventId>,
    /// Whether the session is over.
    pub ended: bool,
    /// Whether it is deleted.
    pub deleted: bool,
    /// The newest lease.
    pub epoch: u64,
    /// The last append under it.
    pub seq: u64,
    /// Whether a brain holds it.
    pub leased: bool,
    last: Option<(Kind, Origin)>,
    /// Calls from the first one on that have their results, all of them.
    done: usize,
    /// The primary thread's id.
    primary: Option<String>,
    position: u64,
    at: i64,
}

/// Reads the body of a record.
fn json(kept: &Entry<'_>) -> Value {
    serde_json::from_str(kept.body.unwrap()).unwrap()
}

fn event(value: &Value) -> EventId {
    EventId::parse(value.as_str().unwrap()).unwrap()
}

impl Ledger {
    /// Reads one more record.
    ///
    /// # Panics
    ///
    /// Where it cannot follow from those before it.
    pub fn read(&mut self, kept: &Entry<'_>) {
        assert_eq!(kept.position, self.position + 1, "positions are dense");
        assert!(kept.at.0 >= self.at, "time goes backwards");
        (self.position, self.at) = (kept.position, kept.at.0);
        if kept.kind.is_public() {
            assert!(kept.event.is_some(), "{} has no id", kept.kind);
            assert!(!self.ended, "{} after the end", kept.kind);
        }
        self.writer(kept);
        let body = json(kept);
        if kept.kind == Kind::Created {
            self.primary = body["thread"].as_str().map(str::to_owned);
        }
        self.inputs(kept);
        self.call(kept, &body);
        self.spans(kept, &body);
        self.status(kept, &body);
        self.errors += usize::from(kept.kind == Kind::SessionError);
        self.last = Some((kept.kind, kept.origin.clone()));
    }

    /// Only the holder of the lease speaks as a brain, in order, and is heard no more afterwards.
    fn writer(&mut self, kept: &Entry<'_>) {
        if let Origin::Brain { epoch, seq } = *kept.origin {
            let goes_on = self
                .last
                .as_ref()
                .is_some_and(|(_, last)| last == kept.origin);
            assert_eq!(epoch, self.epoch, "a stale epoch speaks");
            assert!(
                goes_on || (self.leased && seq > self.seq),
                "{} out of order",
                kept.kind
            );
            self.seq = seq;
        }
        match kept.kind {
            Kind::Claimed => {
                self.epoch = json(kept)["epoch"].as_u64().unwrap();
                (self.leased, self.seq) = (true, 0);
                self.orphan = self.span;
            }
            Kind::Released => {
                assert!(self.leased, "released twice");
                self.leased = false;
            }
            Kind::Parked => self.leased = false,
            _ => {}
        }
    }
}
