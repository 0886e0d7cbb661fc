//! Names of the gateway's metrics.

/// Model requests, by how they ended.
pub(crate) const REQUESTS: &str = "outlast_egress_model_requests_total";
/// Seconds from sending a request to its first event.
pub(crate) const FIRST_EVENT: &str = "outlast_egress_model_first_event_seconds";
/// Tokens, by kind.
pub(crate) const TOKENS: &str = "outlast_egress_model_tokens_total";
