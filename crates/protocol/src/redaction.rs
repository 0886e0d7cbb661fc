//! Erasing what events say: `POST /outlast/v1/sessions/{session_id}/redact`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ErrorCode, Micros, Problem,
    id::{EventId, SessionId},
    limits,
    read::At,
};

/// Which events lose their words, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RedactSession {
    /// The events, each once.
    pub event_ids: Vec<EventId>,
    /// Why; it stays in the log, so it must not repeat what goes.
    pub because: String,
}

impl RedactSession {
    /// Reads a request body.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and where.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let mut object = At::root(body).object()?;
        let events = object.field("event_ids").required()?;
        let mut event_ids: Vec<EventId> = Vec::new();
        for event in events.items(1..=limits::REDACTED)? {
            let id = event.id(ErrorCode::NotFound, "event")?;
            if !event_ids.contains(&id) {
                event_ids.push(id);
            }
        }
        let because = object.field("because").required()?;
        let because = because.string(1..=limits::BECAUSE)?;
        object.finish()?;
        Ok(Self { event_ids, because })
    }
}

/// What came of it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "session_redaction")]
pub struct SessionRedaction {
    /// The session.
    pub session_id: SessionId,
    /// The events that say nothing any more.
    pub event_ids: Vec<EventId>,
    /// Positions of the bodies that this request erased; none if all were gone before.
    pub positions: Vec<u64>,
    /// When; absent if nothing was left to erase.
    pub at: Option<Micros>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_names_events_and_a_reason() {
        let id = "sevt_010000000000000000000001";
        let read = |body: Value| RedactSession::parse(&body);
        let good = read(json!({"event_ids": [id, id], "because": "a leaked key"})).unwrap();
        assert_eq!(good.event_ids.len(), 1, "each once");
        for (body, words) in [
            (json!({}), "event_ids: is required"),
            (json!({"event_ids": [], "because": "x"}), "event_ids: "),
            (json!({"event_ids": ["x"], "because": "x"}), "event_ids.0: "),
            (json!({"event_ids": [id]}), "because: is required"),
            (
                json!({"event_ids": [id], "because": ""}),
                "because: must have 1 to 1000",
            ),
            (
                json!({"event_ids": [id], "because": "x", "by": "me"}),
                "by: unknown field",
            ),
        ] {
            let problem = read(body.clone()).unwrap_err();
            assert!(problem.message.starts_with(words), "{body}: {problem:?}");
        }
        let many = vec![id; limits::REDACTED + 1];
        read(json!({"event_ids": many, "because": "x"})).unwrap_err();
    }
}
