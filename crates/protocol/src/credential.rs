//! Credentials: secrets that a vault keeps, and what may be done with them.
//!
//! The secrets of a request are [`Secret`](crate::Secret)s; what is stored and shown as a
//! [`Credential`] has none of them.

mod address;
mod auth;
mod create;
mod hosts;
mod location;
mod oauth;
mod reserved;
mod resource;
mod update;
mod validation;

pub use address::normal;
pub use auth::{Auth, EndpointAuth, Kind, Refresh};
pub use create::{CreateAuth, CreateCredential};
pub use hosts::Networking;
pub use location::{Location, LocationPatch};
pub use oauth::{CreateRefresh, UpdateRefresh};
pub use resource::Credential;
pub use update::{UpdateAuth, UpdateCredential};
pub use validation::{HttpResponse, McpProbe, RefreshStatus, Refreshed, Validation, Verdict};

#[cfg(test)]
mod tests;
