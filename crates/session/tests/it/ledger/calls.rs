//! Calls run with leave, are settled once and have one result, in the model's order.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most kinds of records have nothing to look at"
)]

use outlast_protocol::id::EventId;
use outlast_session::Kind;
use serde_json::Value;

use super::{Ledger, Told, event};
use crate::world::Kept;

impl Ledger {
    pub(super) fn call(&mut self, kept: &Kept, body: &Value) {
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
                self.resting |= self.thread == Some(outlast_session::Status::Idle);
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

    /// The calls that wait for a client.
    pub(crate) fn asked(&self) -> impl Iterator<Item = EventId> {
        let waits = |(_, call): &&(EventId, Told)| call.asks && !call.allowed && !call.settled;
        self.calls.iter().filter(waits).map(|(id, _)| *id)
    }
}
