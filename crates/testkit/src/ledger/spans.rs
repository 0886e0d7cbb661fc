//! A request has one start and one end, and counts once.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most kinds of records have nothing to look at"
)]

use outlast_session::{Entry, Kind, Status};
use serde_json::Value;

use super::{Ledger, event};

impl Ledger {
    pub(super) fn spans(&mut self, kept: &Entry<'_>, body: &Value) {
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
                self.orphan = None;
                *self.spans.get_mut(&id).unwrap() += 1;
                let answered = self.responses.contains(&id);
                assert!(
                    answered || body["is_error"] == true,
                    "a span that ended well in nothing"
                );
            }
            Kind::RequestEnded => {
                let id = event(&body["request"]);
                assert!(self.counted.insert(id), "counted twice");
                self.input += body["tokens"]["input"].as_u64().unwrap();
            }
            _ => {}
        }
    }
}
