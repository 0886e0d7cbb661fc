//! What goes over the socket, apart from what the seams have already.

use outlast_protocol::{
    Micros,
    audit::Entry,
    credential::Credential,
    id::{CredentialId, IncarnationId, ResourceId, SessionId, VaultId},
};
use outlast_store::SealedSecret;
use outlast_vault::Purpose;
use serde::{Deserialize, Serialize};

/// The version of all that goes over the socket. Both processes are of one installation: they are
/// started anew together.
pub(super) const VERSION: u32 = 1;

/// The header that says which server asks.
pub(super) const SERVER: &str = "x-outlast-server";

/// The header that says what a server is, in JSON.
pub(super) const HELLO: &str = "x-outlast-hello";

/// The header that says whose bytes are to be looked through, in JSON.
pub(super) const OF: &str = "x-outlast-of";

/// The header of an answer that no provider gave.
pub(super) const UNREACHED: &str = "x-outlast-unreached";

/// What a connection that is turned around becomes.
pub(super) const PROTOCOL: &str = "outlast-records";

/// What a server says of itself.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    pub(super) pid: u32,
    /// Whether no other server uses its store.
    pub(super) alone: bool,
    /// Where it listens: no sandbox is to reach that.
    pub(super) listens: std::net::SocketAddr,
}

/// What a server is told once it is linked.
#[derive(Deserialize, Serialize)]
pub(super) struct Opened {
    pub(super) trouble: Option<String>,
    /// Keys that open no secret; none while there is trouble.
    pub(super) keys: Vec<(Purpose, [u8; 32])>,
}

/// Which credential is tried.
#[derive(Deserialize, Serialize)]
pub(super) struct Tried {
    pub(super) vault: VaultId,
    pub(super) credential: CredentialId,
}

/// Which life is meant.
#[derive(Deserialize, Serialize)]
pub(super) struct Life {
    pub(super) incarnation: IncarnationId,
}

/// Whose secrets are looked for.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Of {
    pub(super) session: SessionId,
    pub(super) vaults: Vec<VaultId>,
    pub(super) repositories: Vec<ResourceId>,
}

/// What the egress asks of the server's store.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask {
    Secret(String),
    Secrets {
        after: Option<String>,
        limit: usize,
    },
    Credentials(VaultId),
    Replace(SealedSecret),
    Rewrap {
        from: String,
        new: SealedSecret,
    },
    Claim {
        owner: String,
        revision: u64,
        now: Micros,
        until: Micros,
    },
    EndRefresh {
        owner: String,
        revision: u64,
        until: Micros,
    },
    /// Decisions for the audit log.
    Note(Vec<Entry>),
}

/// What it is told.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    Secret(Option<SealedSecret>),
    Secrets(Vec<SealedSecret>),
    Credentials(Vec<Credential>),
    Done(bool),
    Failed(String),
}
