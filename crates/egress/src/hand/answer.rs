//! What egress itself answers, in words that a model can act on.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::ext::ReasonPhrase;
use outlast_reach::Unreachable;

use super::body::Body;

/// The longest reason phrase; many clients show nothing else of a refused `CONNECT`.
const REASON: usize = 300;

/// An answer of egress's own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Answer {
    status: StatusCode,
    rule: &'static str,
    words: String,
}

impl Answer {
    fn new(status: StatusCode, rule: &'static str, words: impl Into<String>) -> Self {
        let words = words.into();
        Self {
            status,
            rule,
            words,
        }
    }

    /// What is asked for is refused by a rule.
    pub(crate) fn forbidden(rule: &'static str, words: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, rule, words)
    }

    /// The request cannot be, or says two things.
    pub(crate) fn bad(words: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "request", words)
    }

    /// The other side fails.
    pub(crate) fn upstream(words: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "upstream", words)
    }

    /// Egress cannot do it at the moment.
    pub(crate) fn unavailable(rule: &'static str, words: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, rule, words)
    }

    /// Returns what decided.
    pub(crate) fn rule(&self) -> &'static str {
        self.rule
    }

    /// Tells whether it was refused, and did not fail.
    pub(crate) fn is_refusal(&self) -> bool {
        self.status.is_client_error()
    }

    /// Returns the words.
    #[cfg(test)]
    pub(crate) fn words(&self) -> &str {
        &self.words
    }

    /// Returns it as a whole response without any library, for a connection that is not served.
    pub(crate) fn bare(&self) -> String {
        let (status, reason) = (self.status.as_u16(), self.reason());
        let body = self.text();
        let length = body.len();
        format!(
            "HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain; charset=utf-8\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )
    }

    pub(crate) fn response(&self) -> Response<Body> {
        let text = Full::new(Bytes::from(self.text()));
        let mut response = Response::new(text.map_err(|never| match never {}).boxed_unsync());
        *response.status_mut() = self.status;
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
        if let Ok(reason) = ReasonPhrase::try_from(self.reason().into_bytes()) {
            response.extensions_mut().insert(reason);
        }
        response
    }

    fn text(&self) -> String {
        format!("outlast egress: {}\n", self.words)
    }

    /// Returns the words as they fit into a status line.
    fn reason(&self) -> String {
        let shown = |c: char| {
            if c == ' ' || c.is_ascii_graphic() {
                c
            } else {
                '?'
            }
        };
        self.words.chars().map(shown).take(REASON).collect()
    }
}

impl From<Unreachable> for Answer {
    fn from(error: Unreachable) -> Self {
        let words = error.to_string();
        match error {
            Unreachable::Refused(refused) => {
                Self::new(StatusCode::FORBIDDEN, refused.range.name(), words)
            }
            Unreachable::Late { .. } => Self::new(StatusCode::GATEWAY_TIMEOUT, "upstream", words),
            Unreachable::Unknown { .. } | Unreachable::Failed { .. } => Self::upstream(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_in_the_status_line_too() {
        let answer = Answer::forbidden("allowed_hosts", "host `bücher\r\nx: y` is refused");
        let bare = answer.bare();
        let first = bare.lines().next().unwrap();
        assert_eq!(first, "HTTP/1.1 403 host `b?cher??x: y` is refused");
        assert!(bare.ends_with("outlast egress: host `bücher\r\nx: y` is refused\n"));
        let response = answer.response();
        let reason = response.extensions().get::<ReasonPhrase>().unwrap();
        assert_eq!(reason.as_bytes(), b"host `b?cher??x: y` is refused");
    }
}
