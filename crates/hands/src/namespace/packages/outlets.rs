//! Ways out of installations that run, by the hand that waits for each.

use std::{
    collections::HashMap,
    io,
    net::TcpListener,
    sync::{Mutex, MutexGuard, PoisonError},
};

use outlast_protocol::id::IncarnationId;

/// Those of a node.
#[derive(Debug, Default)]
pub(super) struct Outlets(Mutex<HashMap<IncarnationId, TcpListener>>);

/// One that is open until this is dropped.
pub(super) struct Open<'a> {
    all: &'a Outlets,
    incarnation: IncarnationId,
}

impl Outlets {
    /// Has one found until the answer is dropped.
    pub(super) fn open(&self, incarnation: IncarnationId, outlet: TcpListener) -> Open<'_> {
        self.lock().insert(incarnation, outlet);
        let all = self;
        Open { all, incarnation }
    }

    /// Returns another descriptor of one.
    pub(super) fn of(&self, incarnation: IncarnationId) -> io::Result<Option<TcpListener>> {
        let all = self.lock();
        all.get(&incarnation)
            .map(TcpListener::try_clone)
            .transpose()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IncarnationId, TcpListener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        drop(self.all.lock().remove(&self.incarnation));
    }
}
