//! What credentials a hand's requests may carry, and where.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use outlast_kernel::{Bound, Unreachable};
use outlast_protocol::id::{IncarnationId, VaultId};
use outlast_reach::Pattern;
use outlast_vault::Secret;
use zeroize::Zeroizing;

use super::{place::Place, policy::Policy};

/// Finds the credentials of hands.
#[async_trait]
pub trait Credentials: Debug + Send + Sync {
    /// Returns those of a hand, the first of a name first.
    ///
    /// Asked for each request, so that a rotation arrives; as long as nothing changed the same `Arc` is
    /// returned, for what is made of it is kept by that.
    ///
    /// # Errors
    ///
    /// If they cannot be read now. Nothing is sent then.
    async fn of(&self, bound: &Bound) -> Result<Arc<[Held]>, Unreadable>;

    /// Returns what the key of a life's authority follows from; none without a master key.
    fn seed(&self, life: IncarnationId) -> Option<Zeroizing<[u8; 32]>>;
}

/// Credentials that cannot be read, and why; of no secret.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("credentials cannot be read at the moment: {0}")]
pub struct Unreadable(pub String);

/// A credential that a hand's requests may carry.
#[derive(Clone, Debug)]
pub struct Held {
    /// Whose it is, for the audit log.
    pub credential: String,
    /// The vault it is in, if it is in one.
    pub vault: Option<VaultId>,
    /// Where it may go.
    pub hosts: Hosts,
    /// How it gets there.
    pub way: Way,
}

/// Where a credential may go.
#[derive(Clone, Debug)]
pub enum Hosts {
    /// To every host.
    Any,
    /// To these.
    These(Vec<Pattern>),
}

/// How a credential gets into a request.
#[derive(Clone, Debug)]
pub enum Way {
    /// In the place of what stands for it inside the hand.
    Swap {
        /// The environment variable that has the placeholder.
        variable: String,
        /// What stands for it, worth nothing from any other hand.
        placeholder: String,
        /// It.
        secret: Secret,
        /// Whether in headers.
        header: bool,
        /// Whether in the body.
        body: bool,
    },
    /// Beside what is there, as `Authorization: Basic`: nothing inside stands for it.
    Basic {
        /// At which port of its hosts.
        port: u16,
        /// What the path begins with, up to a `/` or its end.
        path: String,
        /// The user.
        user: String,
        /// Its password.
        secret: Secret,
    },
}

impl Held {
    /// Tells whether it may go to a place.
    pub(crate) fn is_for(&self, Place { host, port }: &Place) -> bool {
        let hosts = match &self.hosts {
            Hosts::Any => true,
            Hosts::These(patterns) => patterns.iter().any(|pattern| pattern.matches(host)),
        };
        let ports = match &self.way {
            Way::Swap { .. } => true,
            Way::Basic { port: own, .. } => own == port,
        };
        hosts && ports
    }

    /// Returns it as one that names hosts which are not allowed, if it does.
    pub(crate) fn unreachable(&self, policy: &Policy) -> Option<Unreachable> {
        let Hosts::These(patterns) = &self.hosts else {
            return None;
        };
        let lacking = patterns.iter().filter(|pattern| !policy.meets(pattern));
        let hosts: Vec<_> = lacking.map(Pattern::to_string).collect();
        Some(Unreachable {
            credential: self.credential.parse().ok()?,
            vault: self.vault?,
            hosts,
        })
        .filter(|found| !found.hosts.is_empty())
    }

    pub(crate) fn secret(&self) -> &Secret {
        match &self.way {
            Way::Swap { secret, .. } | Way::Basic { secret, .. } => secret,
        }
    }
}

/// No credentials at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCredentials;

#[async_trait]
impl Credentials for NoCredentials {
    async fn of(&self, _bound: &Bound) -> Result<Arc<[Held]>, Unreadable> {
        Ok(Arc::default())
    }

    fn seed(&self, _life: IncarnationId) -> Option<Zeroizing<[u8; 32]>> {
        None
    }
}
