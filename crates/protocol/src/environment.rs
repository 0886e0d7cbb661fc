//! Environments: where a session's hands are made, and what they may reach.

mod networking;
mod own;
mod packages;
mod request;
mod resource;

pub use networking::Networking;
pub use own::{IMAGE, RUN};
pub use packages::{Manager, Packages};
pub use request::{CreateEnvironment, UpdateEnvironment};
pub use resource::{Config, Environment, Scope};

#[cfg(test)]
mod tests;
