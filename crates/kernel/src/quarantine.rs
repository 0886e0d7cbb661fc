//! Suspects, threads on which one brain after another came to nothing, are worked on one at a time: if
//! this process ends by one of them, no other suspect is blamed for it.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use outlast_protocol::id::SessionId;
use outlast_session::State;
use outlast_store::Ready;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::kernel::Inner;

/// The one place for a suspect, and who waits for it.
#[derive(Debug)]
pub(crate) struct Quarantine {
    place: Arc<Semaphore>,
    waiting: Mutex<HashSet<(SessionId, u32)>>,
}

impl Default for Quarantine {
    fn default() -> Self {
        Self {
            place: Arc::new(Semaphore::new(1)),
            waiting: Mutex::default(),
        }
    }
}

/// The place, taken.
#[derive(Debug)]
pub(crate) struct Alone {
    _permit: OwnedSemaphorePermit,
}

impl Quarantine {
    fn set(&self) -> MutexGuard<'_, HashSet<(SessionId, u32)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.set().len()
    }

    /// Tells whether a thread waits for the place.
    pub(crate) fn has(&self, session: SessionId, thread: u32) -> bool {
        self.set().contains(&(session, thread))
    }

    /// Forgets those that waited and are not ready any more.
    pub(crate) fn seen(&self, ready: &[Ready]) {
        let ready: HashSet<_> = ready.iter().map(|one| (one.session, one.thread)).collect();
        self.set().retain(|one| ready.contains(one));
    }

    /// Tells whether there is no use in claiming a thread now.
    pub(crate) fn must_wait(&self, ready: &Ready) -> bool {
        self.place.available_permits() == 0 && self.has(ready.session, ready.thread)
    }

    /// Takes the place for a suspect, or notes that it waits.
    pub(crate) fn enter(&self, ready: &Ready) -> Option<Alone> {
        let key = (ready.session, ready.thread);
        let mut waiting = self.set();
        if let Ok(permit) = self.place.clone().try_acquire_owned() {
            waiting.remove(&key);
            return Some(Alone { _permit: permit });
        }
        waiting.insert(key);
        None
    }
}

impl Alone {
    /// Keeps the place until the thread of that state gets on, or its brain ends.
    pub(crate) fn hold(self, inner: &Arc<Inner>, state: &Arc<State>, thread: u32) {
        let epoch = state.thread(thread).map_or(0, |seen| seen.epoch);
        let signal = inner.signals.follow(state);
        let (own, process) = (inner.clone(), inner.life.process());
        inner.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = gets_on(signal, thread, epoch) => {}
                () = own.life.died(process) => {}
                () = own.closing.cancelled() => {}
            }
            drop(self);
            own.wake.notify_one();
        });
    }
}

/// Waits until a brain got on with a thread, or lost it.
async fn gets_on(mut signal: watch::Receiver<Arc<State>>, thread: u32, epoch: u64) {
    let over = |state: &Arc<State>| {
        let seen = state.thread(thread).filter(|seen| seen.epoch == epoch);
        seen.is_none_or(|seen| seen.attempts == 0 || seen.lease.is_none())
    };
    // The sender lives as long as a receiver does.
    drop(signal.wait_for(over).await);
}
