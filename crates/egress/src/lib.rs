//! Forwarders that hold a credential while one request passes.
//!
//! For now the model gateway, in process: the one place with the model key. It writes the spans
//! and the usage, so that no brain has to be believed about either.

#![forbid(unsafe_code)]

mod gateway;
mod guarded;
mod metered;
mod metric_definitions;
mod routes;

pub use gateway::Gateway;
pub use routes::Routes;
