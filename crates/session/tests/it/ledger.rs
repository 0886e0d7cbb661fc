//! The log read a second time, without `fold`: what must hold in every log whatever was proposed.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most kinds of records have nothing to look at"
)]

mod calls;
mod inputs;
mod spans;
mod statuses;

use std::collections::HashMap;

use outlast_protocol::id::EventId;
use outlast_session::{Kind, Origin, Status};
use serde_json::Value;

use crate::world::Kept;

/// A call as its public events tell it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) response: u64,
    pub(crate) custom: bool,
    pub(crate) asks: bool,
    pub(crate) allowed: bool,
    pub(crate) settled: bool,
    pub(crate) result: Option<u64>,
}

/// What the records so far come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) waiting: Vec<(EventId, Kind)>,
    pub(crate) placed: Vec<EventId>,
    pub(crate) calls: Vec<(EventId, Told)>,
    pub(crate) span: Option<EventId>,
    pub(crate) spans: HashMap<EventId, u32>,
    pub(crate) counted: Vec<EventId>,
    pub(crate) input: u64,
    pub(crate) responses: Vec<EventId>,
    pub(crate) errors: usize,
    pub(crate) session: Option<Status>,
    pub(crate) thread: Option<Status>,
    pub(crate) asked_idle: bool,
    /// The calls that clients were last told to answer.
    pub(crate) named: Vec<EventId>,
    /// A turn ended while inputs waited: the next must begin.
    pub(crate) stranded: bool,
    /// Results were told while the thread rested: what closes it must follow.
    pub(crate) resting: bool,
    /// The open span of a brain that lost its lease.
    pub(crate) orphan: Option<EventId>,
    pub(crate) ended: bool,
    pub(crate) deleted: bool,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) leased: bool,
    pub(crate) last: Option<(Kind, Origin)>,
    position: u64,
    at: i64,
}

fn event(value: &Value) -> EventId {
    EventId::parse(value.as_str().unwrap()).unwrap()
}

impl Ledger {
    /// Reads one more record; panics where it cannot follow.
    pub(crate) fn read(&mut self, kept: &Kept) {
        assert_eq!(kept.position, self.position + 1, "positions are dense");
        assert!(kept.at.0 >= self.at, "time goes backwards");
        (self.position, self.at) = (kept.position, kept.at.0);
        if kept.kind.is_public() {
            assert!(kept.event.is_some(), "{} has no id", kept.kind);
            assert!(!self.ended, "{} after the end", kept.kind);
        }
        self.writer(kept);
        let body = kept.json();
        self.inputs(kept);
        self.call(kept, &body);
        self.spans(kept, &body);
        self.status(kept, &body);
        self.errors += usize::from(kept.kind == Kind::SessionError);
        self.last = Some((kept.kind, kept.origin.clone()));
    }

    /// Only the holder of the lease speaks as a brain, in order, and is heard no more afterwards.
    fn writer(&mut self, kept: &Kept) {
        if let Origin::Brain { epoch, seq } = kept.origin {
            let goes_on = self
                .last
                .as_ref()
                .is_some_and(|(_, last)| *last == kept.origin);
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
                self.epoch = kept.json()["epoch"].as_u64().unwrap();
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
