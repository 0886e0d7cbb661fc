//! Names of the metrics of gateway and hand egress.

/// Model requests, by how they ended.
pub(crate) const REQUESTS: &str = "outlast_egress_model_requests_total";
/// Seconds from sending a request to its first event.
pub(crate) const FIRST_EVENT: &str = "outlast_egress_model_first_event_seconds";
/// Tokens, by kind.
pub(crate) const TOKENS: &str = "outlast_egress_model_tokens_total";

/// Connections out of hands that are open.
pub(crate) const CONNECTIONS: &str = "outlast_egress_hand_connections";
/// Requests and tunnels out of hands, by the way they take.
pub(crate) const REQUESTS_OUT: &str = "outlast_egress_hand_requests_total";
/// What was refused or failed, by rule.
pub(crate) const REFUSED: &str = "outlast_egress_hand_refused_total";
/// What came back with a secret in it, which was taken out.
pub(crate) const SWEPT: &str = "outlast_egress_hand_swept_total";
/// Bytes through tunnels, by direction.
pub(crate) const BYTES: &str = "outlast_egress_hand_tunnel_bytes_total";
