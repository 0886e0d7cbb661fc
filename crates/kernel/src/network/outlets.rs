//! Which hands this process serves the way out of, and the steps of that along their lives.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use outlast_hands::{Outlet, Provisioner, packages::Rest};
use outlast_protocol::{Problem, environment::Networking, id::IncarnationId};
use tokio::time::sleep;

use super::{Bound, Dress, Network, Unreachable};

/// How often to look whether an installation has begun.
const LOOK: Duration = Duration::from_millis(100);

/// The ways out of this node's hands.
#[derive(Debug)]
pub(crate) struct Outlets {
    network: Option<Arc<dyn Network>>,
    /// Whose way out is served, or was looked for in vain.
    served: Mutex<BTreeSet<IncarnationId>>,
}

impl Outlets {
    /// Begins with none served; without a network, or of a driver whose hands have no ways out, none
    /// ever is.
    pub(crate) fn new(hands: &dyn Provisioner, network: Option<Arc<dyn Network>>) -> Self {
        Self {
            network: network.filter(|_| hands.abilities().outlets),
            served: Mutex::default(),
        }
    }

    /// Tells whether hands have a way out.
    pub(crate) fn are_served(&self) -> bool {
        self.network.is_some()
    }

    /// Tells whether a hand's way out has to be served, and is not.
    pub(crate) fn lack(&self, incarnation: IncarnationId) -> bool {
        self.are_served() && !self.served().contains(&incarnation)
    }

    /// Returns what becomes of packages without a mirror where this is allowed.
    pub(crate) fn rest(&self, networking: Option<&Networking>) -> Rest {
        match networking {
            Some(allowed) if self.are_served() && allowed.has_package_managers() => Rest::Fetched,
            Some(_) | None => Rest::Refused,
        }
    }

    /// Serves the way out of whatever installs packages for a hand, while that is being made.
    pub(crate) async fn while_made<T>(
        &self,
        hands: &dyn Provisioner,
        bound: &Bound,
        making: impl Future<Output = T>,
    ) -> T {
        // A registry is everybody's: no credential has a part in it.
        let bound = Bound {
            vaults: Vec::new(),
            repositories: Vec::new(),
            mcp_hosts: Vec::new(),
            ..bound.clone()
        };
        tokio::select! {
            biased;
            made = making => made,
            never = self.serve_installation(hands, bound) => match never {},
        }
    }

    async fn serve_installation(&self, hands: &dyn Provisioner, bound: Bound) -> Infallible {
        let outlet = loop {
            // Until it begins there is none, and what cannot be had now may be the next time.
            match hands.outlet(bound.incarnation).await {
                Ok(Some(outlet)) => break outlet,
                Ok(None) | Err(_) => sleep(LOOK).await,
            }
        };
        if let Some(network) = &self.network {
            network.attach(bound, outlet).await;
        }
        std::future::pending().await
    }

    /// Returns what a new hand gets, if there is a way out.
    pub(crate) async fn dress(&self, bound: &Bound) -> Result<Option<Outlet>, Problem> {
        let Some(network) = &self.network else {
            return Ok(None);
        };
        let Dress {
            variables,
            authority,
        } = network.dress(bound).await?;
        Ok(Some(Outlet {
            variables,
            authority,
        }))
    }

    /// Has a living hand's way out served. What fails is logged and tried again before the next call:
    /// until then connections wait.
    pub(crate) async fn attach(&self, hands: &dyn Provisioner, bound: Bound) {
        let Some(network) = &self.network else { return };
        let incarnation = bound.incarnation;
        let outlet = match hands.outlet(incarnation).await {
            Ok(outlet) => outlet,
            Err(fault) => {
                let hand = incarnation;
                tracing::error!(hand.id = %hand, "the way out of `{hand}` is not served: {fault}");
                return;
            }
        };
        self.served().insert(incarnation);
        if let Some(outlet) = outlet {
            network.attach(bound, outlet).await;
        }
        // It was ended meanwhile, and whoever did that was too early to revoke this.
        if !self.served().contains(&incarnation) {
            network.revoke(incarnation).await;
        }
    }

    /// Returns the credentials that are of no use in a hand, if that can be said.
    pub(crate) async fn unreachable(
        &self,
        incarnation: IncarnationId,
    ) -> Option<Arc<[Unreachable]>> {
        self.network.as_ref()?.unreachable(incarnation).await
    }

    /// Has nothing more leave for a hand, which is about to end or has ended.
    pub(crate) async fn revoke(&self, incarnation: IncarnationId) {
        if let Some(network) = &self.network {
            self.served().remove(&incarnation);
            network.revoke(incarnation).await;
        }
    }

    /// Lets go of all: hands that go on wait for the next process.
    pub(crate) async fn close(&self) {
        let served = std::mem::take(&mut *self.served());
        for incarnation in served {
            self.revoke(incarnation).await;
        }
    }

    fn served(&self) -> MutexGuard<'_, BTreeSet<IncarnationId>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
