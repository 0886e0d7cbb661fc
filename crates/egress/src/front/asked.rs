//! What is read of a request that passes.

use std::borrow::Cow;

use http::HeaderMap;
use outlast_protocol::Problem;
use serde::Deserialize;

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

/// The fields that decide; all others are the provider's to judge.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(default)]
    stream: Option<serde_json::Value>,
}

impl Asked {
    /// Reads a body.
    pub(super) fn read(body: &[u8]) -> Result<Self, Problem> {
        let read: Body<'_> = serde_json::from_slice(body)
            .map_err(|error| Problem::invalid(format!("the body: is no request: {error}")))?;
        let model = read.model.filter(|model| !model.is_empty());
        let model = model.ok_or_else(|| Problem::invalid("model: is required"))?;
        Ok(Self {
            model: model.into_owned(),
            streams: read.stream == Some(serde_json::Value::Bool(true)),
        })
    }
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
            (&b"{"[..], "the body: "),
            (b"[]", "the body: "),
            (b"{}", "model: is required"),
            (br#"{"model":null}"#, "model: is required"),
            (br#"{"model":""}"#, "model: is required"),
            (br#"{"model":7}"#, "the body: "),
        ] {
            let problem = Asked::read(body).unwrap_err();
            assert!(problem.message.starts_with(words), "{problem:?}");
        }
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
