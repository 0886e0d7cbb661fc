//! Environments: where a session's hands are made, and what they may reach.

mod networking;
mod request;
mod resource;

pub use networking::Networking;
pub use request::{CreateEnvironment, UpdateEnvironment};
pub use resource::{Config, Environment, Packages, Scope};

#[cfg(test)]
mod tests;
