//! Scripted failures.

use std::time::Duration;

use serde::Deserialize;

use crate::scripted::Rejection;

/// A failure: a status alone, which fails for ever, or a description.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(in crate::scripted) enum Fault {
    /// Fails with this status, every time.
    Status(u16),
    /// Fails as described.
    Described(Description),
}

/// What a failure looks like.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::scripted) struct Description {
    status: Option<u16>,
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
    retry_after_ms: Option<u64>,
    times: Option<u32>,
    midway: bool,
    drop: bool,
}

/// When a failure comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::scripted) enum FaultPlace {
    /// In place of the answer, as its HTTP status.
    Start,
    /// In the middle of the answer, as an `error` event.
    Midway,
    /// In the middle of the answer, as a broken connection.
    Drop,
}

impl Fault {
    /// Returns how often it fails before it lets the answer through; `None` for ever.
    pub(in crate::scripted) fn times(&self) -> Option<u32> {
        match self {
            Self::Status(_) => None,
            Self::Described(description) => description.times,
        }
    }

    /// Returns when it comes.
    pub(in crate::scripted) fn place(&self) -> FaultPlace {
        match self {
            Self::Described(description) if description.drop => FaultPlace::Drop,
            Self::Described(description) if description.midway => FaultPlace::Midway,
            Self::Status(_) | Self::Described(_) => FaultPlace::Start,
        }
    }

    /// Returns it in the API's shape.
    pub(in crate::scripted) fn rejection(&self) -> Rejection {
        let described = match self {
            Self::Status(_) => Description::default(),
            Self::Described(description) => description.clone(),
        };
        let status = self.status();
        let kind = described.kind.unwrap_or_else(|| kind(status).to_owned());
        Rejection {
            status,
            message: described
                .message
                .unwrap_or_else(|| format!("scripted {kind}")),
            kind,
            retry_after: described.retry_after_ms.map(Duration::from_millis),
        }
    }

    /// Checks what the types do not.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.status() {
            400..=599 => Ok(()),
            other => Err(format!(
                "`error` takes a status from 400 to 599, not {other}"
            )),
        }
    }

    fn status(&self) -> u16 {
        match self {
            Self::Status(status) => *status,
            Self::Described(description) => description.status.unwrap_or(500),
        }
    }
}

/// Returns the type that goes with a status.
fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        408 | 504 => "timeout_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}
