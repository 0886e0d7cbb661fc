//! Agents: versioned configurations that sessions copy.

mod identity;
mod model;
mod request;
mod resource;
pub mod tools;

pub use identity::ExecutionIdentity;
pub use model::{Effort, Geo, Model, ModelRequest, Speed};
pub(crate) use request::refuse_later_parts;
pub use request::{CreateAgent, UpdateAgent};
pub use resource::Agent;
pub use tools::Tools;

#[cfg(test)]
mod tests;
