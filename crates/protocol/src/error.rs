//! Error codes and the error body of the wire.

use serde::Serialize;
use serde_json::{Map, Value};

/// What went wrong, as a machine reads it. Keep this alphabetized.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ErrorCode {
    /// The `agent` override sets `model` to null.
    AgentModelRequired,
    /// The key is missing or unknown.
    Authentication,
    /// The request contradicts the stored state and a repeat cannot help.
    Conflict,
    /// An archived environment cannot be changed.
    EnvironmentArchived,
    /// No environment of that id.
    EnvironmentNotFound,
    /// The server failed; the cause is in its log, under the request id.
    Internal,
    /// `config.type` of an environment never changes.
    InvalidConfigTypeChange,
    /// Metadata has too many pairs, or a key or value that is too long.
    InvalidMetadata,
    /// The request is not what the endpoint takes.
    InvalidRequest,
    /// The method does not exist on that path.
    MethodNotAllowed,
    /// The session's model takes no `system.message`.
    ModelDoesNotSupportMidConversationSystem,
    /// Nothing of that id or path.
    NotFound,
    /// The field or value belongs to a part of the API that this server does not have yet.
    NotSupported,
    /// Too much work is waiting; come back after `retry-after`.
    Overloaded,
    /// The key is good but not for this.
    Permission,
    /// The body is larger than the limit.
    RequestTooLarge,
    /// The request took too long.
    Timeout,
    /// The log cannot be written now: disk full, database gone. Nothing was accepted.
    Unavailable,
}

impl ErrorCode {
    /// Returns the HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::AgentModelRequired
            | Self::EnvironmentArchived
            | Self::InvalidConfigTypeChange
            | Self::InvalidMetadata
            | Self::InvalidRequest
            | Self::ModelDoesNotSupportMidConversationSystem
            | Self::NotSupported => 400,
            Self::Authentication => 401,
            Self::Permission => 403,
            Self::EnvironmentNotFound | Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Timeout => 408,
            Self::Conflict => 409,
            Self::RequestTooLarge => 413,
            Self::Internal => 500,
            Self::Unavailable => 503,
            Self::Overloaded => 529,
        }
    }

    /// Returns `error.type` of the body.
    pub fn kind(self) -> &'static str {
        match self {
            Self::AgentModelRequired
            | Self::EnvironmentArchived
            | Self::InvalidConfigTypeChange
            | Self::InvalidMetadata
            | Self::InvalidRequest
            | Self::MethodNotAllowed
            | Self::ModelDoesNotSupportMidConversationSystem
            | Self::NotSupported => "invalid_request_error",
            Self::Authentication => "authentication_error",
            Self::Conflict => "conflict_error",
            Self::EnvironmentNotFound | Self::NotFound => "not_found_error",
            Self::Internal | Self::Unavailable => "api_error",
            Self::Overloaded => "overloaded_error",
            Self::Permission => "permission_error",
            Self::RequestTooLarge => "request_too_large",
            Self::Timeout => "timeout_error",
        }
    }

    /// Returns `error.details.error_code`, where the API has one.
    pub fn detail(self) -> Option<&'static str> {
        match self {
            Self::AgentModelRequired => Some("agent_model_required"),
            Self::EnvironmentArchived => Some("environment_archived"),
            Self::EnvironmentNotFound => Some("environment_not_found"),
            Self::InvalidConfigTypeChange => Some("invalid_config_type_change"),
            Self::InvalidMetadata => Some("invalid_metadata"),
            Self::ModelDoesNotSupportMidConversationSystem => {
                Some("model_does_not_support_mid_conversation_system")
            }
            Self::NotSupported => Some("not_supported"),
            Self::Authentication
            | Self::Conflict
            | Self::Internal
            | Self::InvalidRequest
            | Self::MethodNotAllowed
            | Self::NotFound
            | Self::Overloaded
            | Self::Permission
            | Self::RequestTooLarge
            | Self::Timeout
            | Self::Unavailable => None,
        }
    }

    /// Tells clients whether the same request may succeed later; `None` leaves it to the status.
    pub fn is_retryable(self) -> Option<bool> {
        match self {
            Self::Conflict => Some(false),
            Self::AgentModelRequired
            | Self::Authentication
            | Self::EnvironmentArchived
            | Self::EnvironmentNotFound
            | Self::Internal
            | Self::InvalidConfigTypeChange
            | Self::InvalidMetadata
            | Self::InvalidRequest
            | Self::MethodNotAllowed
            | Self::ModelDoesNotSupportMidConversationSystem
            | Self::NotFound
            | Self::NotSupported
            | Self::Overloaded
            | Self::Permission
            | Self::RequestTooLarge
            | Self::Timeout
            | Self::Unavailable => None,
        }
    }
}

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
