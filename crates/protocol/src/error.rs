//! Error codes and the error body of the wire.

use serde::Serialize;
use serde_json::{Map, Value};

/// Declares the codes, each with its status, `error.type` and, where the API has one,
/// `error.details.error_code`: every fact stands once.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:literal, $kind:literal $(, $detail:literal)?;)*) => {
        /// What went wrong, as a machine reads it.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum ErrorCode { $($(#[$doc])* $name,)* }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// Returns `error.type` of the body.
            pub fn kind(self) -> &'static str {
                match self { $(Self::$name => $kind,)* }
            }

            /// Returns `error.details.error_code`, where the API has one.
            pub fn detail(self) -> Option<&'static str> {
                match self { $(Self::$name => [$($detail,)?].first().copied(),)* }
            }
        }
    };
}

// Keep this alphabetized.
codes! {
    /// The `agent` override sets `model` to null.
    AgentModelRequired = 400, "invalid_request_error", "agent_model_required";
    /// The key is missing or unknown.
    Authentication = 401, "authentication_error";
    /// The request contradicts the stored state and a repeat cannot help.
    Conflict = 409, "conflict_error";
    /// The disk of the server, or of its database, is full. Nothing was accepted.
    DiskFull = 503, "api_error", "disk_full";
    /// An archived environment cannot be changed.
    EnvironmentArchived = 400, "invalid_request_error", "environment_archived";
    /// No environment of that id.
    EnvironmentNotFound = 404, "not_found_error", "environment_not_found";
    /// The file is past its `expires_at`.
    FileExpired = 404, "not_found_error", "file_expired";
    /// The file's bytes are not given out again.
    FileNotDownloadable = 400, "invalid_request_error", "file_not_downloadable";
    /// The server failed; the cause is in its log, under the request id.
    Internal = 500, "api_error";
    /// `config.type` of an environment never changes.
    InvalidConfigTypeChange = 400, "invalid_request_error", "invalid_config_type_change";
    /// Metadata has too many pairs, or a key or value that is too long.
    InvalidMetadata = 400, "invalid_request_error", "invalid_metadata";
    /// The request is not what the endpoint takes.
    InvalidRequest = 400, "invalid_request_error";
    /// The method does not exist on that path.
    MethodNotAllowed = 405, "invalid_request_error";
    /// The session's model takes no `system.message`.
    ModelDoesNotSupportMidConversationSystem = 400, "invalid_request_error",
        "model_does_not_support_mid_conversation_system";
    /// Nothing of that id or path.
    NotFound = 404, "not_found_error";
    /// The field or value belongs to a part of the API that this server does not have yet.
    NotSupported = 400, "invalid_request_error", "not_supported";
    /// Too much work is waiting; come back after `retry-after`.
    Overloaded = 529, "overloaded_error";
    /// The path belongs to a part of the API that this server does not have yet.
    PathNotSupported = 404, "not_found_error", "not_supported";
    /// The key is good but not for this.
    Permission = 403, "permission_error";
    /// The part that is asked for begins behind the end.
    RangeNotSatisfiable = 416, "invalid_request_error";
    /// The caller sends more than is taken in; come back after `retry-after`.
    RateLimited = 429, "rate_limit_error";
    /// The body is larger than the limit.
    RequestTooLarge = 413, "request_too_large";
    /// The request took too long.
    Timeout = 408, "timeout_error";
    /// The log cannot be written now: the disk fails, the database is gone. Nothing was accepted.
    Unavailable = 503, "api_error";
    /// The server has not the master key that secrets are sealed under. Nothing was accepted.
    VaultLocked = 503, "api_error", "vault_locked";
}

impl ErrorCode {
    /// Tells clients whether the same request may succeed later; `None` leaves it to the status.
    pub fn is_retryable(self) -> Option<bool> {
        matches!(self, Self::Conflict | Self::VaultLocked).then_some(false)
    }

    /// Tells whether it passes by itself, so that clients are told when to come back.
    pub fn is_passing(self) -> bool {
        matches!(
            self,
            Self::DiskFull | Self::Overloaded | Self::RateLimited | Self::Unavailable
        )
    }
}

/// Marks an answer whose body, and whose `request-id` if it has one, are another server's: they go
/// to the client as they are.
#[derive(Clone, Copy, Debug)]
pub struct Foreign;

/// A refusal with the words a client reads.
///
/// The message names the field or id, what is wrong with it and what is allowed. It never holds a
/// secret, and for [`ErrorCode::Internal`] it says nothing of the cause.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// What went wrong.
    pub code: ErrorCode,
    /// Words for a person.
    pub message: String,
}

impl Problem {
    /// Makes a problem of `code` with its words.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// Makes the usual 400: the request itself is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    /// Makes the 404 of an unknown object.
    pub fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(ErrorCode::NotFound, format!("{what} not found"))
    }

    /// Returns the body of the wire.
    pub fn body(&self, request_id: &str) -> ErrorBody<'_> {
        let details = self.code.detail().map(|code| {
            Map::from_iter([("error_code".to_owned(), Value::String(code.to_owned()))])
        });
        ErrorBody {
            kind: "error",
            error: Inner {
                kind: self.code.kind(),
                message: &self.message,
                details,
            },
            request_id: request_id.to_owned(),
        }
    }
}

/// The body of every answer that is not a success.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: Inner<'a>,
    request_id: String,
}

#[derive(Clone, Debug, Serialize)]
struct Inner<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Map<String, Value>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_has_the_fields_of_the_wire() {
        let problem = Problem::new(ErrorCode::NotSupported, "budget: not_supported");
        assert_eq!(
            serde_json::to_value(problem.body("req_1")).unwrap(),
            json!({
                "type": "error", "request_id": "req_1",
                "error": {
                    "type": "invalid_request_error", "message": "budget: not_supported",
                    "details": {"error_code": "not_supported"},
                },
            })
        );
        let plain = Problem::not_found("agent `a`");
        assert_eq!(
            serde_json::to_value(plain.body("req_1")).unwrap()["error"],
            json!({"type": "not_found_error", "message": "agent `a` not found"})
        );
    }

    #[test]
    fn codes_of_one_type_fit_their_status() {
        for code in ErrorCode::ALL {
            let is_client_fault = (400..500).contains(&code.status());
            let is_server_kind = matches!(code.kind(), "api_error" | "overloaded_error");
            assert_ne!(is_client_fault, is_server_kind, "{code:?}");
        }
    }
}
