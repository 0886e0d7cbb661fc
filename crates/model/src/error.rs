//! Why a request failed, sorted by what the loop above can do about it.

use std::time::Duration;

use serde::Deserialize;

/// What kind of passing trouble a retry may get over.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RetryKind {
    /// The provider has too much to do (529, `overloaded_error`).
    Overloaded,
    /// This key asks too often (429, `rate_limit_error`).
    RateLimited,
    /// Anything else that may pass: 5xx, timeouts, broken connections, broken streams.
    Failed,
}

/// The failure of a request, before its first event or in the middle of its stream.
///
/// Messages come from the upstream where it gave one, cut to 1,000 characters, and never hold the
/// key. They may quote the request.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// The same request may succeed later.
    #[error("{message}")]
    Retry {
        /// What kind of trouble it was.
        kind: RetryKind,
        /// How long the upstream asks to wait, at most five minutes.
        after: Option<Duration>,
        /// Words for a person.
        message: String,
    },
    /// The conversation does not fit the model's window; only a shorter one can succeed.
    #[error("{message}")]
    Overflow {
        /// Words for a person.
        message: String,
    },
    /// The account cannot pay; no request succeeds until somebody acts.
    #[error("{message}")]
    Billing {
        /// Words for a person.
        message: String,
    },
    /// The upstream has no such model (404); no request for it ever succeeds.
    #[error("{message}")]
    NoModel {
        /// Words for a person.
        message: String,
    },
    /// The upstream refused this request (400, 422 ...); the same one never succeeds.
    #[error("{message}")]
    Refused {
        /// Words for a person.
        message: String,
    },
    /// Whoever passes the request on took it back: no fault of the model's, and nothing to be told.
    #[error("{message}")]
    Withdrawn {
        /// Words for a person.
        message: String,
    },
    /// The upstream refuses us (401, 403); no request succeeds until the configuration changes.
    #[error("{message}")]
    Fatal {
        /// Words for a person.
        message: String,
    },
}

impl Error {
    /// Makes the retryable error of no special kind.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Retry {
            kind: RetryKind::Failed,
            after: None,
            message: message.into(),
        }
    }

    /// Tells whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Retry { .. })
    }
}

/// What an upstream said when it failed, as far as it said anything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Failure {
    /// The HTTP status; `None` for an error in the middle of a stream.
    pub status: Option<u16>,
    /// `error.type` of the body.
    pub kind: Option<String>,
    /// `error.message` of the body, or whatever else there is to read.
    pub message: String,
    /// The wait it asks for.
    pub after: Option<Duration>,
    /// Its `x-should-retry` header, which overrules the status.
    pub should_retry: Option<bool>,
}

/// Phrases by which upstreams say that a conversation is too long.
const OVERFLOW: [&str; 7] = [
    "prompt is too long",
    "exceed context limit",
    "exceeds the available context size",
    "exceed_context_size",
    "context_length_exceeded",
    "maximum context length",
    "exceeds the context window",
];

/// Phrases by which upstreams say that the account cannot pay.
const BILLING: [&str; 3] = [
    "credit balance is too low",
    "insufficient_quota",
    "billing_error",
];

/// The longest message that is passed on, in characters.
const LONGEST: usize = 1_000;

impl Failure {
    /// Reads an error body in the API's shape or any that resembles it.
    ///
    /// A body that is no JSON becomes the message itself.
    pub fn from_body(body: &str) -> Self {
        let parsed = serde_json::from_str::<Body>(body)
            .ok()
            .and_then(|body| body.error);
        match parsed {
            Some(Detail::Object {
                kind,
                code,
                message,
            }) => Self {
                kind: kind.or_else(|| {
                    code.as_ref()
                        .and_then(|code| code.as_str().map(str::to_owned))
                }),
                message: message.unwrap_or_default(),
                ..Self::default()
            },
            Some(Detail::Text(message)) => Self {
                message,
                ..Self::default()
            },
            None => Self {
                message: body.trim().to_owned(),
                ..Self::default()
            },
        }
    }

    /// Decides what the loop above can do about it.
    pub fn classify(self) -> Error {
        let message = self.words();
        if self.says(&OVERFLOW) || self.status == Some(413) {
            return Error::Overflow { message };
        }
        if self.says(&BILLING) || self.status == Some(402) {
            return Error::Billing { message };
        }
        let retry = |kind| Error::Retry {
            kind,
            after: self.after,
            message: message.clone(),
        };
        match (self.verdict(), self.should_retry) {
            (Verdict::Fatal, _) => Error::Fatal { message },
            (Verdict::NoModel, _) => Error::NoModel { message },
            (Verdict::Retry(_) | Verdict::Refused, Some(false)) | (Verdict::Refused, None) => {
                Error::Refused { message }
            }
            (Verdict::Refused, Some(true)) => retry(RetryKind::Failed),
            (Verdict::Retry(kind), None | Some(true)) => retry(kind),
        }
    }

    /// Looks for a phrase in the type and the message.
    fn says(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        let kind = self.kind.as_deref().unwrap_or_default();
        phrases
            .iter()
            .any(|phrase| message.contains(phrase) || kind.contains(phrase))
    }

    /// Judges by status, and by type where the status says nothing.
    fn verdict(&self) -> Verdict {
        let by_kind = match self.kind.as_deref() {
            Some("overloaded_error") => Some(Verdict::Retry(RetryKind::Overloaded)),
            Some("rate_limit_error") => Some(Verdict::Retry(RetryKind::RateLimited)),
            Some("authentication_error" | "permission_error") => Some(Verdict::Fatal),
            Some("not_found_error") => Some(Verdict::NoModel),
            Some("invalid_request_error" | "request_too_large") => Some(Verdict::Refused),
            _ => None,
        };
        match self.status {
            Some(529) => Verdict::Retry(RetryKind::Overloaded),
            Some(429) => Verdict::Retry(RetryKind::RateLimited),
            Some(401 | 403) => Verdict::Fatal,
            Some(408 | 409 | 425) => Verdict::Retry(RetryKind::Failed),
            // A 404 without the API's own word is a wrong address, which can be mended.
            Some(404) => match by_kind {
                Some(Verdict::NoModel) => Verdict::NoModel,
                Some(Verdict::Retry(_) | Verdict::Refused | Verdict::Fatal) | None => {
                    Verdict::Refused
                }
            },
            Some(300..=499 | 501 | 505) => Verdict::Refused,
            Some(500..=599) => match by_kind {
                Some(Verdict::Retry(kind)) => Verdict::Retry(kind),
                Some(Verdict::Fatal | Verdict::NoModel | Verdict::Refused) | None => {
                    Verdict::Retry(RetryKind::Failed)
                }
            },
            Some(_) | None => by_kind.unwrap_or(Verdict::Retry(RetryKind::Failed)),
        }
    }

    /// Returns one line of at most a thousand characters that is never empty.
    fn words(&self) -> String {
        let mut words: String = self
            .message
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(LONGEST)
            .collect();
        if words.trim().is_empty() {
            words = match (&self.kind, self.status) {
                (Some(kind), _) => kind.chars().take(LONGEST).collect(),
                (None, Some(status)) => format!("the model's provider answered {status}"),
                (None, None) => "the model's provider gave no reason".to_owned(),
            };
        }
        words.trim().to_owned()
    }
}

/// What status and type come to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    Retry(RetryKind),
    Refused,
    NoModel,
    Fatal,
}

#[derive(Debug, Deserialize)]
struct Body {
    error: Option<Detail>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Detail {
    Object {
        #[serde(rename = "type")]
        kind: Option<String>,
        code: Option<serde_json::Value>,
        message: Option<String>,
    },
    Text(String),
}

#[cfg(test)]
mod tests;
