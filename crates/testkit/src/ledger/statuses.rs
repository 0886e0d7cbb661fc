//! Statuses follow each other as section 7.3 of the API reference has them.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most kinds of records have nothing to look at"
)]

use outlast_session::{Entry, Kind, Status};
use serde_json::Value;

use super::{Ledger, event};

impl Ledger {
    pub(super) fn status(&mut self, kept: &Entry<'_>, body: &Value) {
        let before = self.last.as_ref().map(|(kind, _)| *kind);
        match kept.kind {
            Kind::SessionRunning => {
                assert_ne!(self.session, Some(Status::Running), "runs twice");
                self.session = Some(Status::Running);
            }
            Kind::ThreadRunning => {
                assert_eq!(before, Some(Kind::SessionRunning));
                assert_eq!(body["session_thread_id"].as_str(), self.primary.as_deref());
                assert_ne!(self.thread, Some(Status::Running), "runs twice");
                self.stranded = false;
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
                self.resting = false;
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
        self.resting = false;
        assert_eq!(self.span, None, "a span without an end");
        self.named(body);
        self.asked_idle = body["stop_reason"]["type"] == "requires_action";
        if !self.asked_idle {
            self.all_told();
            self.stranded = !self.waiting.is_empty();
        }
        self.thread = Some(Status::Idle);
    }

    /// An idle event names exactly the calls that wait for a client.
    fn named(&mut self, body: &Value) {
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
        self.named = ids;
    }
}
