//! The way out of hands: who serves it, and what a hand is given for it.
//!
//! A hand has no route. What leaves it does so through one listener, which the first process inside
//! binds and hands out before anything else runs; whoever implements [`Network`] accepts on it.

mod adopt;
mod bound;
pub mod fake;
mod outlets;
mod unreachable;

use std::{fmt::Debug, net::TcpListener, sync::Arc};

use async_trait::async_trait;
use outlast_protocol::{
    Problem,
    environment::Networking,
    id::{EnvironmentId, IncarnationId, ResourceId, SessionId, VaultId},
};
use serde::{Deserialize, Serialize};

pub(crate) use outlets::Outlets;
pub use unreachable::Unreachable;

/// Whose hand it is, and what it may reach.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Bound {
    /// The session.
    pub session: SessionId,
    /// The life of its hand.
    pub incarnation: IncarnationId,
    /// The session's environment.
    pub environment: EnvironmentId,
    /// What that environment allowed at the moment when this life was wanted.
    pub networking: Networking,
    /// Whose credentials may be used; the first one counts where several hold the same.
    pub vaults: Vec<VaultId>,
    /// The repositories of the session, whose tokens may be used for their own paths.
    pub repositories: Vec<ResourceId>,
    /// Hosts of the agent's MCP servers.
    pub mcp_hosts: Vec<String>,
}

/// What a new hand is given by what serves its way out.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Dress {
    /// Environment variables of everything that runs inside: placeholders, never a secret.
    pub variables: Vec<(String, String)>,
    /// The certificate in PEM of an authority that programs inside trust beside the usual ones.
    pub authority: Option<String>,
}

/// Serves the ways out of hands.
#[async_trait]
pub trait Network: Debug + Send + Sync {
    /// Says what a hand is to be given before it is made; the same again for the same life.
    ///
    /// # Errors
    ///
    /// If nothing can be said now; no hand is made then, and the next call tries again.
    async fn dress(&self, bound: &Bound) -> Result<Dress, Problem>;

    /// Serves a living hand's listener, in tasks of its own, until it is revoked.
    ///
    /// The same life again replaces what it is bound to and its listener.
    async fn attach(&self, bound: Bound, outlet: TcpListener);

    /// Returns the credentials of a life that name hosts which it may not; none if that cannot be said now,
    /// as while it is not served.
    ///
    /// Asked before each call, so it is cheap while nothing changes.
    async fn unreachable(&self, incarnation: IncarnationId) -> Option<Arc<[Unreachable]>>;

    /// Lets go of a life's listener: when this returns nothing more leaves for it, and what ran is cut.
    ///
    /// One that is not served is no error.
    async fn revoke(&self, incarnation: IncarnationId);
}
