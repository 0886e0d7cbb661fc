//! The log read a second time, without `fold`: what must hold in every log whatever was proposed.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most kinds of records have nothing to look at"
)]

use std::collections::HashMap;

use outlast_protocol::id::EventId;
use outlast_session::{Kind, Origin, Status};
use serde_json::Value;

use crate::{parts, world::Kept};

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
    pub(crate) session: Option<Status>,
    pub(crate) thread: Option<Status>,
    pub(crate) asked_idle: bool,
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
            }
            Kind::Released => {
                assert!(self.leased, "released twice");
                self.leased = false;
            }
            _ => {}
        }
    }

    fn inputs(&mut self, kept: &Kept) {
        if let Some(kind) = kept
            .kind
            .announces()
            .filter(|kind| *kind != Kind::AgentToolResult)
        {
            self.waiting.push((kept.event.unwrap(), kind));
        }
        if matches!(
            kept.kind,
            Kind::UserMessage | Kind::UserInterrupt | Kind::SystemMessage
        ) {
            let id = kept.event.unwrap();
            assert!(!self.placed.contains(&id), "placed twice");
            self.placed.push(id);
            let arrived = self.waiting.iter().position(|(waiting, _)| *waiting == id);
            let behind_result = kept.kind == Kind::SystemMessage;
            assert!(
                arrived.is_some() || behind_result,
                "{} never arrived",
                kept.kind
            );
            if let Some(index) = arrived {
                assert_eq!(index, self.first(kept.kind), "placed out of order");
                assert_eq!(self.waiting.remove(index).1, kept.kind);
            }
        }
    }

    /// Inputs are placed in order of arrival, but interrupts go first.
    fn first(&self, kind: Kind) -> usize {
        let skip = |(_, waiting): &&(EventId, Kind)| {
            (*waiting == Kind::UserInterrupt) != (kind == Kind::UserInterrupt)
        };
        self.waiting.iter().take_while(skip).count()
    }

    fn call(&mut self, kept: &Kept, body: &Value) {
        match kept.kind {
            Kind::Response => {
                let request = event(&body["request"]);
                assert!(!self.responses.contains(&request), "answered twice");
                self.responses.push(request);
            }
            Kind::AgentToolUse | Kind::AgentCustomToolUse => {
                let custom = kept.kind == Kind::AgentCustomToolUse;
                let told = Told {
                    response: self.responses.len() as u64,
                    custom,
                    asks: custom || body["evaluated_permission"] == "ask",
                    allowed: body["evaluated_permission"] == "allow",
                    settled: false,
                    result: None,
                };
                self.calls.push((kept.event.unwrap(), told));
            }
            Kind::UserToolConfirmation => {
                let allow = body["result"] == "allow";
                let call = self.find(&body["tool_use_id"]);
                assert!(call.asks && !call.custom && !call.allowed && !call.settled);
                call.allowed = allow;
            }
            Kind::Intended => {
                let call = self.find(&body["call"]);
                assert!(call.allowed && !call.settled, "handed over without leave");
            }
            Kind::Settled => {
                let call = self.find(&body["call"]);
                assert!(!call.settled, "settled twice");
                call.settled = true;
            }
            Kind::UserCustomToolResult => {
                let call = self.find(&body["custom_tool_use_id"]);
                assert!(call.custom && !call.settled, "answered twice");
                (call.settled, call.result) = (true, Some(kept.position));
            }
            Kind::AgentToolResult => {
                assert_eq!(self.span, None, "a result inside a span");
                let call = self.find(&body["tool_use_id"]);
                assert!(call.settled && call.result.is_none(), "a result too many");
                call.result = Some(kept.position);
                self.order();
            }
            _ => {}
        }
    }

    fn find(&mut self, id: &Value) -> &mut Told {
        let id = event(id);
        let found = self.calls.iter_mut().find(|(call, _)| *call == id);
        &mut found.unwrap().1
    }

    /// Results stand in the model's order; only a call that waits for a client is overtaken.
    fn order(&self) {
        for (index, (_, earlier)) in self.calls.iter().enumerate() {
            let later = self.calls[index + 1..].iter().map(|(_, call)| call);
            for later in later.filter(|call| call.response == earlier.response && !call.custom) {
                let overtaken = match (earlier.result, later.result) {
                    (Some(before), Some(after)) => before > after,
                    (None, Some(_)) => true,
                    (_, None) => false,
                };
                assert!(!overtaken || earlier.asks, "results out of order");
            }
        }
    }

    /// Every call has its one result.
    pub(crate) fn all_told(&self) {
        let open = self.calls.iter().find(|(_, call)| call.result.is_none());
        assert!(open.is_none(), "a call without a result: {open:?}");
    }

    fn spans(&mut self, kept: &Kept, body: &Value) {
        match kept.kind {
            Kind::RequestStart => {
                assert_eq!(self.span, None, "a span inside a span");
                self.all_told();
                assert_eq!(
                    self.thread,
                    Some(Status::Running),
                    "a request of an idle thread"
                );
                self.span = kept.event;
                assert_eq!(self.spans.insert(kept.event.unwrap(), 0), None);
            }
            Kind::RequestEnd => {
                let id = event(&body["model_request_start_id"]);
                assert_eq!(self.span.take(), Some(id), "the end of another span");
                *self.spans.get_mut(&id).unwrap() += 1;
                let answered = self.responses.contains(&id);
                assert!(
                    answered || body["is_error"] == true,
                    "a span that ended well in nothing"
                );
            }
            Kind::RequestEnded => {
                let id = event(&body["request"]);
                assert!(!self.counted.contains(&id), "counted twice");
                self.counted.push(id);
                self.input += body["tokens"]["input"].as_u64().unwrap();
            }
            _ => {}
        }
    }

    fn status(&mut self, kept: &Kept, body: &Value) {
        let before = self.last.as_ref().map(|(kind, _)| *kind);
        match kept.kind {
            Kind::SessionRunning => {
                assert_ne!(self.session, Some(Status::Running), "runs twice");
                self.session = Some(Status::Running);
            }
            Kind::ThreadRunning => {
                assert_eq!(before, Some(Kind::SessionRunning));
                assert_eq!(body["session_thread_id"], parts::primary().to_string());
                assert_ne!(self.thread, Some(Status::Running), "runs twice");
                self.thread = Some(Status::Running);
            }
            Kind::ThreadIdle => self.idle(body),
            Kind::SessionUsage => {
                assert_eq!(body["usage"]["input_tokens"], self.input);
            }
            Kind::SessionIdle => {
                assert_eq!(
                    before,
                    Some(Kind::SessionUsage),
                    "idle without usage before it"
                );
                assert_eq!(
                    self.thread,
                    Some(Status::Idle),
                    "the session rests before its thread"
                );
                self.named(body);
                self.session = Some(Status::Idle);
            }
            Kind::SessionRescheduled => {
                assert_eq!(self.session, Some(Status::Running));
                self.session = Some(Status::Rescheduling);
            }
            Kind::ThreadRescheduled => {
                assert_eq!(self.thread, Some(Status::Running));
                self.thread = Some(Status::Rescheduling);
            }
            Kind::ThreadTerminated => {
                assert_eq!(self.span, None, "a span without an end");
                self.all_told();
                self.thread = Some(Status::Terminated);
            }
            Kind::SessionTerminated => {
                self.session = Some(Status::Terminated);
                self.ended = true;
            }
            Kind::Deleted => {
                assert_ne!(self.session, Some(Status::Running));
                self.deleted = true;
            }
            _ => {}
        }
    }

    fn idle(&mut self, body: &Value) {
        let worked = matches!(self.thread, Some(Status::Running | Status::Rescheduling));
        assert!(worked || self.asked_idle, "idle twice");
        assert_eq!(self.span, None, "a span without an end");
        self.named(body);
        self.asked_idle = body["stop_reason"]["type"] == "requires_action";
        if !self.asked_idle {
            self.all_told();
        }
        self.thread = Some(Status::Idle);
    }

    /// An idle event names exactly the calls that wait for a client.
    fn named(&self, body: &Value) {
        let ids = body["stop_reason"]["event_ids"].as_array();
        let ids: Vec<_> = ids.into_iter().flatten().map(event).collect();
        let asked: Vec<_> = self.asked().collect();
        assert_eq!(
            ids, asked,
            "the idle event names other calls than those that wait"
        );
        assert_eq!(
            asked.is_empty(),
            body["stop_reason"]["type"] != "requires_action"
        );
    }

    /// The calls that wait for a client.
    pub(crate) fn asked(&self) -> impl Iterator<Item = EventId> {
        let waits = |(_, call): &&(EventId, Told)| call.asks && !call.allowed && !call.settled;
        self.calls.iter().filter(waits).map(|(id, _)| *id)
    }
}
