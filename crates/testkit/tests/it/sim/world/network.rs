//! The network of hands as one process reaches it: a dead one asks for nothing and hears of nothing.

use std::{net::TcpListener, sync::Arc};

use async_trait::async_trait;
use outlast_kernel::{Bound, Dress, Network, Unreachable};
use outlast_protocol::{ErrorCode, Problem, id::IncarnationId};
use outlast_testkit::faults::Faults;

/// A network that a process reaches for as long as it lives.
#[derive(Debug)]
pub(crate) struct ReachedNetwork {
    pub(crate) inner: Arc<dyn Network>,
    pub(crate) faults: Arc<Faults>,
}

#[async_trait]
impl Network for ReachedNetwork {
    async fn dress(&self, bound: &Bound) -> Result<Dress, Problem> {
        let failure = || Problem::new(ErrorCode::Unavailable, "a fault was injected");
        let dressed = self.inner.dress(bound);
        self.faults.pass("dress", dressed, failure).await
    }

    async fn attach(&self, bound: Bound, outlet: TcpListener) {
        let attached = self.inner.attach(bound, outlet);
        self.faults.pass_whole("attach", attached).await;
    }

    async fn unreachable(&self, incarnation: IncarnationId) -> Option<Arc<[Unreachable]>> {
        let found = self.inner.unreachable(incarnation);
        self.faults.pass_whole("unreachable", found).await
    }

    async fn revoke(&self, incarnation: IncarnationId) {
        let revoked = self.inner.revoke(incarnation);
        self.faults.pass_whole("revoke", revoked).await;
    }
}
