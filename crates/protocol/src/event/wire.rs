//! Bodies, and the wire form that is spliced around them.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::Kind;
use crate::{Micros, id::EventId};

/// The fields of an event besides `id`, `type` and `processed_at`.
pub trait Body: Serialize {
    /// Returns the type of the event.
    fn kind(&self) -> Kind;

    /// Serializes to compact JSON: once, then keep it.
    fn to_raw(&self) -> Box<RawValue> {
        raw(self)
    }
}

/// Serializes what cannot fail to.
#[expect(
    clippy::expect_used,
    reason = "bodies are structs with text keys and finite numbers; nothing in them can fail"
)]
pub(super) fn raw(body: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    to_raw_value(body).expect("a body serializes")
}

/// Makes the wire form of a stored event: `id`, `type` and `processed_at`, then the body's fields.
///
/// `kind` is the event's type as it is stored. The body is copied as it stands, never parsed; it
/// must be a compact JSON object without those three fields. A missing `processed_at` is null:
/// the event is queued.
pub fn wire(kind: &str, id: EventId, processed_at: Option<Micros>, body: &RawValue) -> String {
    let fields = body.get().strip_prefix('{').unwrap_or("}").trim_start();
    let mut out = String::with_capacity(fields.len().saturating_add(128));
    // Writing to a string never fails.
    let _ = write!(out, r#"{{"id":"{id}","type":"{kind}","processed_at":"#);
    let _ = match processed_at {
        Some(at) => write!(out, r#""{at}""#),
        None => write!(out, "null"),
    };
    if !fields.starts_with('}') {
        out.push(',');
    }
    out.push_str(fields);
    out
}
