//! What is read of a request that passes.

use std::{borrow::Cow, collections::HashMap};

use http::HeaderMap;
use outlast_protocol::{Problem, read::At};
use serde_json::{Map, Value, value::RawValue};

/// Headers of a caller that go on, beside those with the prefixes below.
const LEAVE: [&str; 5] = [
    "accept",
    "content-type",
    "idempotency-key",
    "user-agent",
    "x-app",
];

/// What the API's own headers begin with.
const OWN: [&str; 2] = ["anthropic-", "x-stainless-"];

/// Characters of a caller's word that a message repeats.
const EXCERPT: usize = 64;

/// What decides where a request goes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Asked {
    /// The model that is asked.
    pub(super) model: String,
    /// Whether the answer comes as a stream.
    pub(super) streams: bool,
}

/// The fields that decide; all others are the provider's to judge, and pass unread.
const DECIDE: [&str; 2] = ["model", "stream"];

impl Asked {
    /// Reads a body.
    pub(super) fn read(body: &[u8]) -> Result<Self, Problem> {
        let body = decisive(body)?;
        let mut object = At::root(&body).object()?;
        let model = object.field("model").required()?.filled()?.to_owned();
        let streams = object.field("stream").optional();
        let streams = streams.is_some_and(|stream| stream.raw() == &Value::Bool(true));
        Ok(Self { model, streams })
    }
}

/// Returns what decides of a body that may be large; of a key that occurs twice the last value counts.
fn decisive(body: &[u8]) -> Result<Value, Problem> {
    if body.trim_ascii().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let wrong =
        |error: serde_json::Error| Problem::invalid(format!("the body is not valid JSON: {error}"));
    let fields = match serde_json::from_slice::<HashMap<Cow<'_, str>, &RawValue>>(body) {
        Ok(fields) => fields,
        // It is something else than an object.
        Err(error) if error.is_data() => return serde_json::from_slice(body).map_err(wrong),
        Err(error) => return Err(wrong(error)),
    };
    let mut map = Map::new();
    for name in DECIDE {
        if let Some(raw) = fields.get(name) {
            let value = serde_json::from_str(raw.get()).map_err(wrong)?;
            map.insert(name.to_owned(), value);
        }
    }
    Ok(Value::Object(map))
}

/// Returns the headers that may go to the provider: none that could be a caller's secret.
pub(crate) fn may_leave(headers: &HeaderMap) -> HeaderMap {
    let passes = |name: &str| LEAVE.contains(&name) || OWN.iter().any(|own| name.starts_with(own));
    let mut left = HeaderMap::new();
    for (name, value) in headers {
        if passes(name.as_str()) {
            left.append(name.clone(), value.clone());
        }
    }
    left
}

/// Cuts what a caller sent to what a message can carry.
pub(super) fn excerpt(text: &str) -> String {
    let printable = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(EXCERPT).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_what_decides_is_read() {
        let asked = Asked::read(br#"{"model":"m","stream":true,"new":{"a":[1]}}"#).unwrap();
        let (model, streams) = ("m".to_owned(), true);
        assert_eq!(asked, Asked { model, streams });
        let asked = Asked::read(br#"{"model":"a\nb","stream":"yes"}"#).unwrap();
        assert_eq!((asked.model.as_str(), asked.streams), ("a\nb", false));
        for (body, words) in [
            (
                &b"{"[..],
                "the body is not valid JSON: EOF while parsing an object at line 1 column 1",
            ),
            (b"[]", "the body: must be an object, not an array"),
            (b"7", "the body: must be an object, not a number"),
            (b"", "model: is required"),
            (b"{}", "model: is required"),
            (
                br#"{"model":null}"#,
                "model: is required and must not be null",
            ),
            (br#"{"model":""}"#, "model: must not be empty"),
            (
                br#"{"model":7,"messages":[]}"#,
                "model: must be a string, not a number",
            ),
        ] {
            let problem = Asked::read(body).unwrap_err();
            assert_eq!(problem, Problem::invalid(words));
        }
        let twice = Asked::read(br#"{"model":"a","model":"b"}"#).unwrap();
        assert_eq!(twice.model, "b");
    }

    #[test]
    fn no_secret_of_a_caller_leaves() {
        let mut headers = HeaderMap::new();
        for name in [
            "authorization",
            "x-api-key",
            "cookie",
            "proxy-authorization",
            "x-forwarded-for",
            "x-some-gateway-token",
            "host",
            "content-length",
            "anthropic-beta",
            "anthropic-version",
            "x-stainless-retry-count",
            "content-type",
        ] {
            headers.append(name, HeaderValue::from_static("x"));
        }
        headers.append("anthropic-beta", HeaderValue::from_static("y"));
        let left = may_leave(&headers);
        let names: Vec<&str> = left.keys().map(|name| name.as_str()).collect();
        let expected = [
            "anthropic-beta",
            "anthropic-version",
            "x-stainless-retry-count",
            "content-type",
        ];
        assert_eq!(names, expected);
        assert_eq!(left.get_all("anthropic-beta").iter().count(), 2);
    }
}
