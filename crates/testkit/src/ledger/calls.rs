//! Calls run with leave, are settled once and have one result, in the model's order.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most kinds of records have nothing to look at"
)]

use outlast_protocol::id::EventId;
use outlast_session::{Entry, Kind};
use serde_json::Value;

use super::{Ledger, Told, event};

impl Ledger {
    pub(super) fn call(&mut self, kept: &Entry<'_>, body: &Value) {
        match kept.kind {
            Kind::Response => {
                let request = event(&body["request"]);
                assert!(self.responses.insert(request), "answered twice");
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
                self.advance();
            }
            Kind::AgentToolResult => {
                assert_eq!(self.span, None, "a result inside a span");
                let call = self.find(&body["tool_use_id"]);
                assert!(call.settled && call.result.is_none(), "a result too many");
                call.result = Some(kept.position);
                self.resting |= self.thread == Some(outlast_session::Status::Idle);
                self.order();
                self.advance();
            }
            _ => {}
        }
    }

    fn find(&mut self, id: &Value) -> &mut Told {
        let id = event(id);
        // It is one of the last response's.
        let found = self.calls.iter_mut().rfind(|(call, _)| *call == id);
        &mut found.unwrap().1
    }

    /// Passes over the calls that have their results.
    fn advance(&mut self) {
        let told = |(_, call): &&(EventId, Told)| call.result.is_some();
        self.done += self.calls[self.done..].iter().take_while(told).count();
    }

    /// Results stand in the model's order; only a call that waits for a client is overtaken.
    fn order(&self) {
        let newest = self.calls.last().map_or(0, |(_, call)| call.response);
        let before = |(_, call): &(EventId, Told)| call.response < newest;
        let calls = &self.calls[self.calls.partition_point(before)..];
        for (index, (_, earlier)) in calls.iter().enumerate() {
            let later = calls[index + 1..].iter().map(|(_, call)| call);
            for later in later.filter(|call| !call.custom) {
                let overtaken = match (earlier.result, later.result) {
                    (Some(before), Some(after)) => before > after,
                    (None, Some(_)) => true,
                    (_, None) => false,
                };
                assert!(!overtaken || earlier.asks, "results out of order");
            }
        }
    }

    /// Checks that every call has its one result.
    ///
    /// # Panics
    ///
    /// If one has none.
    pub fn all_told(&self) {
        let open = self.calls[self.done..]
            .iter()
            .find(|(_, call)| call.result.is_none());
        assert!(open.is_none(), "a call without a result: {open:?}");
    }

    /// Returns the calls that wait for a client.
    pub fn asked(&self) -> impl Iterator<Item = EventId> {
        let waits = |(_, call): &&(EventId, Told)| call.asks && !call.allowed && !call.settled;
        self.calls[self.done..]
            .iter()
            .filter(waits)
            .map(|(id, _)| *id)
    }
}
