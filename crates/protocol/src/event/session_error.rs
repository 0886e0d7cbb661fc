//! `session.error`: something failed, and what the server does about it.

use serde::{Deserialize, Serialize};

/// Body of `session.error`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SessionError {
    /// What failed.
    pub error: SessionErrorBody,
}

impl SessionError {
    /// Makes the event of one failure; `message` is for a person and holds no secret.
    pub fn new(kind: ErrorKind, message: impl Into<String>, retry_status: RetryStatus) -> Self {
        Self {
            error: SessionErrorBody {
                kind,
                message: message.into(),
                retry_status,
            },
        }
    }
}

/// The `error` of a `session.error`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SessionErrorBody {
    /// What failed, with the names that belong to it.
    #[serde(flatten)]
    pub kind: ErrorKind,
    /// Words for a person.
    pub message: String,
    /// What happens next.
    pub retry_status: RetryStatus,
}

/// What failed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum ErrorKind {
    /// Anything without a name of its own.
    #[serde(rename = "unknown_error")]
    Unknown,
    /// The model is overloaded, after the automatic retries of one request.
    #[serde(rename = "model_overloaded_error")]
    ModelOverloaded,
    /// The model's rate limit.
    #[serde(rename = "model_rate_limited_error")]
    ModelRateLimited,
    /// Any other failure of the model.
    #[serde(rename = "model_request_failed_error")]
    ModelRequestFailed,
    /// An MCP server could not be reached.
    #[serde(rename = "mcp_connection_failed_error")]
    McpConnectionFailed {
        /// Its name in the agent.
        mcp_server_name: String,
    },
    /// An MCP server refused the credential.
    #[serde(rename = "mcp_authentication_failed_error")]
    McpAuthenticationFailed {
        /// Its name in the agent.
        mcp_server_name: String,
    },
    /// The model's account has no credit; not retried.
    #[serde(rename = "billing_error")]
    Billing,
    /// A credential names a host that the environment does not permit.
    #[serde(rename = "credential_host_unreachable_error")]
    CredentialHostUnreachable {
        /// The credential.
        credential_id: String,
        /// Its vault.
        vault_id: String,
    },
    /// Too many tool rounds in one turn.
    #[serde(rename = "tool_use_limit_reached_error")]
    ToolUseLimitReached,
    /// Too many compactions back to back.
    #[serde(rename = "compaction_limit_reached_error")]
    CompactionLimitReached,
    /// A repository refused the token.
    #[serde(rename = "repository_authentication_error")]
    RepositoryAuthentication {
        /// The repository.
        repository_url: Option<String>,
    },
    /// A repository is out of the token's reach.
    #[serde(rename = "repository_forbidden_error")]
    RepositoryForbidden {
        /// The repository.
        repository_url: Option<String>,
    },
    /// No such repository.
    #[serde(rename = "repository_not_found_error")]
    RepositoryNotFound {
        /// The repository.
        repository_url: Option<String>,
    },
    /// No such branch or commit.
    #[serde(rename = "repository_checkout_error")]
    RepositoryCheckout {
        /// The repository.
        repository_url: Option<String>,
    },
    /// Any other failure to clone.
    #[serde(rename = "repository_clone_error")]
    RepositoryClone {
        /// The repository.
        repository_url: Option<String>,
    },
}

/// What the server does about a failure.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RetryStatus {
    /// It tries again by itself.
    Retrying,
    /// The turn is dead; the session goes idle.
    Exhausted,
    /// The session will be terminated.
    Terminal,
}
