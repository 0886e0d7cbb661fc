//! Sessions and their threads: requests, responses, the agent they run.

mod agent;
mod mount;
mod overrides;
mod repository;
mod request;
mod resource;
mod thread;
mod update;
mod usage;

pub use agent::{AgentSnapshot, ThreadAgent};
pub use mount::{
    AddFile, AddResources, FileKind, FileResource, MountPath, Resource, UPLOADS, parse_resources,
};
pub use overrides::Overrides;
pub use repository::{
    AddRepository, Checkout, RepositoryKind, RepositoryPath, RepositoryResource, RepositoryUrl,
    WORKSPACE, parse_rotation,
};
pub use request::{AgentRef, CreateSession};
pub use resource::{Session, SessionStats, Status};
pub use thread::{Thread, ThreadStats};
pub use update::UpdateSession;
pub use usage::{CacheCreation, Money, ServerToolUse, Usage};

#[cfg(test)]
mod tests;
