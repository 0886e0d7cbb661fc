//! Ways out of hands, handed over to the egress process.

use std::{
    collections::BTreeMap,
    io,
    net::TcpListener,
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use outlast_kernel::{Bound, Dress, Network, Unreachable};
use outlast_protocol::{ErrorCode, Problem, id::IncarnationId};
use outlast_vault::Custodian as _;
use tokio::time::timeout;

use super::{Remote, handed, wire::Life};

/// How long it may take to hand one over.
const PATIENCE: Duration = Duration::from_secs(5);

#[async_trait]
impl Network for Remote {
    async fn dress(&self, bound: &Bound) -> Result<Dress, Problem> {
        let dressed = self.0.asker.ask("/dress", bound).await;
        dressed.map_err(|error| Problem::new(ErrorCode::Unavailable, error.to_string()))
    }

    async fn attach(&self, bound: Bound, outlet: TcpListener) {
        let kept = outlet.try_clone();
        match kept {
            Ok(kept) => {
                self.served()
                    .insert(bound.incarnation, (bound.clone(), kept));
            }
            Err(error) => {
                let incarnation = bound.incarnation;
                tracing::error!(%incarnation, %error, "a hand's outlet cannot be kept: {error}");
            }
        }
        self.hand_over(bound, outlet).await;
    }

    async fn unreachable(&self, incarnation: IncarnationId) -> Option<Arc<[Unreachable]>> {
        let asked = self
            .0
            .asker
            .ask("/unreachable", &Life { incarnation })
            .await;
        let found: Option<Vec<Unreachable>> = asked.ok()?;
        found.map(Into::into)
    }

    /// Where it cannot be said that a life ended, all links are cut: that ends all of them there, and what
    /// is still to be served is handed over again.
    async fn revoke(&self, incarnation: IncarnationId) {
        let was_served = self.served().remove(&incarnation).is_some();
        if let Err(error) = self.end(incarnation).await
            && was_served
        {
            tracing::warn!(%incarnation, "a way out is cut with all others: {error}");
            self.0.cut.notify_one();
        }
    }
}

impl Remote {
    fn served(&self) -> MutexGuard<'_, BTreeMap<IncarnationId, (Bound, TcpListener)>> {
        self.0.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands all over to a process that has none of them.
    pub(super) async fn attach_all(&self) {
        let all: Vec<_> = {
            let served = self.served();
            let all = served.values();
            all.filter_map(|(bound, outlet)| Some((bound.clone(), outlet.try_clone().ok()?)))
                .collect()
        };
        for (bound, outlet) in all {
            self.hand_over(bound, outlet).await;
        }
    }

    /// Hands one over. What fails is logged: connections wait until there is another process.
    async fn hand_over(&self, bound: Bound, outlet: TcpListener) {
        let (asker, incarnation) = (&self.0.asker, bound.incarnation);
        let giving = handed::give_away(&asker.peer, &asker.server, &bound, &outlet);
        let given = timeout(PATIENCE, giving).await;
        let given = given.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        if let Err(error) = given {
            let words = asker.words(&error);
            tracing::warn!(%incarnation, "the way out of `{incarnation}` waits: {words}");
            if self.away().is_none() {
                // That process is there: all is handed over anew.
                self.0.cut.notify_one();
            }
        }
    }
}
