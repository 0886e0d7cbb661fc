//! What a try of a credential against its MCP server came to.

use serde::{Deserialize, Serialize};

use crate::Micros;
use crate::id::{CredentialId, VaultId};
use crate::words::words;

/// The answer of `mcp_oauth_validate`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "vault_credential_validation")]
pub struct Validation {
    /// The credential.
    pub credential_id: CredentialId,
    /// Whether it has a refresh token.
    pub has_refresh_token: bool,
    /// The step that failed, if one did.
    pub mcp_probe: Option<McpProbe>,
    /// The renewal that was tried on a 401, if one was.
    pub refresh: Option<Refreshed>,
    /// What it comes to.
    pub status: Verdict,
    /// When it was tried.
    pub validated_at: Micros,
    /// The vault of the credential.
    pub vault_id: VaultId,
    /// Why a server said nothing, if one did not: it may not be connected to, or nobody is there. The
    /// object has no field for it.
    #[serde(skip)]
    pub unreached: Option<String>,
}

words! {
    /// What a validation comes to.
    pub enum Verdict {
        /// The server takes the credential.
        Valid = "valid",
        /// The server, or the token endpoint, refuses it.
        Invalid = "invalid",
        /// Nobody could tell.
        Unknown = "unknown",
    }
}

/// A step of the try that failed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct McpProbe {
    /// What the server said, if it did.
    pub http_response: Option<HttpResponse>,
    /// The method of the Model Context Protocol.
    pub method: String,
}

/// A renewal that was tried.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Refreshed {
    /// What the token endpoint said when it refused.
    pub http_response: Option<HttpResponse>,
    /// What it came to.
    pub status: RefreshStatus,
}

words! {
    /// What a renewal came to.
    pub enum RefreshStatus {
        /// There is a new access token.
        Succeeded = "succeeded",
        /// The token endpoint refused.
        Failed = "failed",
        /// The token endpoint was not reached.
        ConnectError = "connect_error",
        /// There was nothing to renew it with.
        NoRefreshToken = "no_refresh_token",
    }
}

/// A response that is shown, without its secrets.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct HttpResponse {
    /// What it said, perhaps cut.
    pub body: String,
    /// Whether it was cut.
    pub body_truncated: bool,
    /// Its `Content-Type`, empty if it had none.
    pub content_type: String,
    /// Its status.
    pub status_code: u16,
}
