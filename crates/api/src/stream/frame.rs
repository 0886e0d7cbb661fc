//! Frames: a name, for logged events a position, one line of data, an empty line.

use std::fmt::Write as _;

use outlast_protocol::{
    Micros, Problem,
    event::{Body as _, Delta, Ping, SessionDeleted, Start, wire},
    id::{EventId, RequestId},
};
use outlast_session::Record;
use serde::Serialize;

use crate::events::{self, Sight};

/// Writes the frame of a record that clients see.
pub(super) fn record(out: &mut String, record: &Record) {
    let Some(sight) = events::shown(record.kind) else {
        return;
    };
    let name = match sight {
        Sight::Placed => record.kind,
        Sight::Arrived(kind) => kind,
    };
    if let Some(data) = events::wire(record) {
        frame(out, name.text(), Some(record.position), &data);
    }
}

/// Writes the beginning of a preview.
pub(super) fn start(out: &mut String, start: &Start) {
    object(out, "event_start", start);
}

/// Writes a piece of a preview.
pub(super) fn delta(out: &mut String, delta: &Delta) {
    object(out, "event_delta", delta);
}

/// Writes a sign of life with the head of the log.
pub(super) fn ping(out: &mut String, head: u64) {
    object(out, "ping", &Ping { head });
}

/// Writes the last frame of a deleted session; it stands in no log.
pub(super) fn deleted(out: &mut String, id: EventId, at: Micros) {
    let body = SessionDeleted::default();
    let kind = body.kind().as_str();
    frame(out, kind, None, &wire(kind, id, Some(at), &body.to_raw()));
}

/// Writes the last frame of a stream that cannot go on.
pub(super) fn error(out: &mut String, problem: &Problem, request: RequestId) {
    object(out, "error", &problem.body(&request.to_string()));
}

fn object(out: &mut String, name: &str, object: &impl Serialize) {
    if let Ok(data) = serde_json::to_string(object) {
        frame(out, name, None, &data);
    }
}

fn frame(out: &mut String, name: &str, position: Option<u64>, data: &str) {
    out.reserve(data.len() + name.len() + 40);
    // Writing to a string never fails.
    let _ = writeln!(out, "event: {name}");
    if let Some(position) = position {
        let _ = writeln!(out, "id: {position}");
    }
    out.push_str("data: ");
    // A model's own JSON may hold line breaks between its tokens; in a text none can stand bare.
    let mut lines = data.split(['\n', '\r']);
    out.push_str(lines.next().unwrap_or_default());
    for line in lines {
        out.push(' ');
        out.push_str(line);
    }
    out.push_str("\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_one_line_of_data_and_ends_with_an_empty_one() {
        let mut out = String::new();
        frame(
            &mut out,
            "agent.tool_use",
            Some(7),
            "{\"input\":{\r\n\"a\":\"\\n\"}}",
        );
        let data = "data: {\"input\":{  \"a\":\"\\n\"}}";
        assert_eq!(out, format!("event: agent.tool_use\nid: 7\n{data}\n\n"));
    }
}
