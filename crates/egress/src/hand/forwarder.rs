//! All hands whose ways out are served.

use std::{
    collections::{HashMap, VecDeque},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use outlast_kernel::{Bound, Dress, Network, Unreachable};
use outlast_protocol::{ErrorCode, Problem, id::IncarnationId};
use outlast_reach::{Dialer, Resolver};
use tokio::sync::mpsc;

use super::{
    audit::Audit,
    bound::{self, Hand, Shared},
    credentials::{Credentials, Way},
    listen::Incoming,
    options::Options,
    tls::Trust,
};

/// Lives that ended and may not come back; a message that is later than so many others is none.
const REMEMBERED: usize = 4_096;

/// Serves the ways out of hands.
#[derive(Debug)]
pub struct Forwarder {
    shared: Arc<Shared>,
    hands: Mutex<Hands>,
}

#[derive(Debug, Default)]
struct Hands {
    served: HashMap<IncarnationId, Arc<Hand>>,
    revoked: VecDeque<IncarnationId>,
}

impl Forwarder {
    /// Makes one that serves nobody yet.
    pub fn new(
        options: Options,
        credentials: Arc<dyn Credentials>,
        resolver: Arc<dyn Resolver>,
        audit: Audit,
    ) -> Self {
        let dialer = Dialer::new(options.rule.clone(), resolver, options.connect);
        let trust = Trust::new(options.authorities.clone());
        Self {
            shared: Arc::new(Shared {
                dialer,
                options,
                audit,
                credentials,
                trust,
            }),
            hands: Mutex::default(),
        }
    }

    /// Lets go of all: nothing more leaves, and whoever serves these hands next may begin with any.
    pub async fn close(&self) {
        let served = std::mem::take(&mut self.hands().served);
        for hand in served.into_values() {
            hand.cut().await;
        }
    }

    /// Serves a living hand by connections that somebody else accepts, as [`attach`](Network::attach)
    /// does by its listener.
    pub(crate) async fn serve(&self, bound: Bound, connections: mpsc::Receiver<TcpStream>) {
        self.attach_to(bound, Incoming::Accepted(connections)).await;
    }

    async fn attach_to(&self, bound: Bound, incoming: Incoming) {
        let Some((hand, before)) = self.replace(bound) else {
            return;
        };
        if let Some(before) = before {
            before.cut().await;
        }
        hand.listen(incoming).await;
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the hand of a life, and the one that it was before if that was bound to something else.
    fn replace(&self, bound: Bound) -> Option<(Arc<Hand>, Option<Arc<Hand>>)> {
        let mut hands = self.hands();
        if hands.revoked.contains(&bound.incarnation) {
            return None;
        }
        match hands.served.get(&bound.incarnation) {
            Some(hand) if hand.bound == bound => Some((hand.clone(), None)),
            Some(_) | None => {
                let life = bound.incarnation;
                let hand = Arc::new(Hand::new(self.shared.clone(), bound));
                let before = hands.served.insert(life, hand.clone());
                Some((hand, before))
            }
        }
    }
}

#[async_trait]
impl Network for Forwarder {
    async fn dress(&self, bound: &Bound) -> Result<Dress, Problem> {
        let credentials = &*self.shared.credentials;
        let held = credentials.of(bound).await;
        let held = held.map_err(|error| Problem::new(ErrorCode::Unavailable, error.to_string()))?;
        let mut variables: Vec<(String, String)> = Vec::new();
        for one in &*held {
            let Way::Swap {
                variable,
                placeholder,
                ..
            } = &one.way
            else {
                continue;
            };
            if variables.iter().all(|(name, _)| name != variable) {
                variables.push((variable.clone(), placeholder.clone()));
            }
        }
        let authority = bound::authority(credentials, bound.incarnation);
        Ok(Dress {
            variables,
            authority: authority.map(|authority| authority.pem().to_owned()),
        })
    }

    async fn attach(&self, bound: Bound, outlet: TcpListener) {
        let listener = outlet
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpListener::from_std(outlet));
        match listener {
            Ok(listener) => self.attach_to(bound, Incoming::Listener(listener)).await,
            Err(error) => {
                let incarnation = bound.incarnation;
                tracing::error!(%incarnation, %error, "a hand's outlet cannot be served: {error}");
            }
        }
    }

    async fn unreachable(&self, incarnation: IncarnationId) -> Option<Arc<[Unreachable]>> {
        let hand = self.hands().served.get(&incarnation).cloned();
        hand?.unreachable().await
    }

    async fn revoke(&self, incarnation: IncarnationId) {
        let hand = {
            let mut hands = self.hands();
            if hands.revoked.len() == REMEMBERED {
                hands.revoked.pop_front();
            }
            hands.revoked.push_back(incarnation);
            hands.served.remove(&incarnation)
        };
        if let Some(hand) = hand {
            hand.cut().await;
        }
    }
}
