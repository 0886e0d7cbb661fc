//! A network that only takes notes, for tests of what uses it.

use std::{
    collections::BTreeMap,
    net::TcpListener,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use outlast_protocol::{ErrorCode, Problem, id::IncarnationId};

use super::{Bound, Dress, Network, Unreachable};

/// One thing that the kernel wanted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Wish {
    /// What a new hand gets.
    Dress(Bound),
    /// A listener to be served.
    Attach(Bound),
    /// Nothing more to leave.
    Revoke(IncarnationId),
}

/// Takes notes; nothing is accepted.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    dress: Dress,
    refusal: Option<String>,
    unreachable: Vec<Unreachable>,
    wishes: Vec<Wish>,
    served: BTreeMap<IncarnationId, TcpListener>,
}

impl Notes {
    /// Dresses all hands alike.
    pub fn new(dress: Dress) -> Self {
        let notes = Self::default();
        notes.state().dress = dress;
        notes
    }

    /// Refuses to dress hands from now on, or does it again.
    pub fn refuse(&self, reason: Option<&str>) {
        self.state().refusal = reason.map(str::to_owned);
    }

    /// Says of the credentials of all hands which are of no use there.
    pub fn say_unreachable(&self, all: Vec<Unreachable>) {
        self.state().unreachable = all;
    }

    /// Returns all that was wanted, in order.
    pub fn wishes(&self) -> Vec<Wish> {
        self.state().wishes.clone()
    }

    /// Returns whose listeners are held.
    pub fn served(&self) -> Vec<IncarnationId> {
        self.state().served.keys().copied().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Network for Notes {
    async fn dress(&self, bound: &Bound) -> Result<Dress, Problem> {
        let mut state = self.state();
        state.wishes.push(Wish::Dress(bound.clone()));
        match &state.refusal {
            Some(reason) => Err(Problem::new(ErrorCode::Overloaded, reason.clone())),
            None => Ok(state.dress.clone()),
        }
    }

    async fn attach(&self, bound: Bound, outlet: TcpListener) {
        let mut state = self.state();
        state.served.insert(bound.incarnation, outlet);
        state.wishes.push(Wish::Attach(bound));
    }

    async fn unreachable(&self, _incarnation: IncarnationId) -> Option<Arc<[Unreachable]>> {
        Some(self.state().unreachable.clone().into())
    }

    async fn revoke(&self, incarnation: IncarnationId) {
        let mut state = self.state();
        state.served.remove(&incarnation);
        state.wishes.push(Wish::Revoke(incarnation));
    }
}
