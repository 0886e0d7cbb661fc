//! Answers that succeed.

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, header};
use outlast_protocol::Problem;
use serde::Serialize;

use crate::failure::{self, Failure};

/// What a handler returns.
pub(crate) type Answer = Result<Response, Failure>;

/// Makes a response of JSON text.
pub(crate) fn json(text: impl Into<Body>) -> Response {
    let mut response = text.into().into_response();
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Serializes an object of the wire.
pub(crate) fn text(object: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string(object).map_err(|fault| failure::internal(&fault))
}

/// Makes a response of an object of the wire.
pub(crate) fn view(object: &impl Serialize) -> Answer {
    Ok(json(text(object)?))
}

/// Lists objects that are JSON text already: `data`, and the cursors of a page.
///
/// A cursor that is named is there, null at the end; others are left out.
pub(crate) fn page<T: AsRef<str>>(items: &[T], cursors: &[(&str, Option<String>)]) -> String {
    let size = items
        .iter()
        .map(|item| item.as_ref().len() + 1)
        .sum::<usize>();
    let mut out = String::with_capacity(size + 256);
    out.push_str(r#"{"data":["#);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(item.as_ref());
    }
    out.push(']');
    for (name, cursor) in cursors {
        // Cursors are of base64's letters alone: nothing in them needs an escape.
        match cursor {
            Some(cursor) => out.push_str(&format!(r#","{name}":"{cursor}""#)),
            None => out.push_str(&format!(r#","{name}":null"#)),
        }
    }
    out.push('}');
    out
}

/// Makes the confirmation of a delete.
pub(crate) fn deleted(id: &impl std::fmt::Display, kind: &str) -> String {
    format!(r#"{{"id":"{id}","type":"{kind}"}}"#)
}
