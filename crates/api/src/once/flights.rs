//! Requests that are at work now.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use outlast_protocol::Problem;
use tokio::sync::watch;

use super::{
    attempt::{Attempt, Chain},
    marks::Marks,
};

/// The newest attempt of each fingerprint that is at work.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<[u8; 32], Entry>>);

#[derive(Clone, Debug)]
struct Entry {
    chain: Chain,
    /// Holds the body of the answer once accepted; its sender goes without one when refused.
    body: watch::Receiver<Option<Arc<str>>>,
}

/// What an attempt finds.
#[derive(Debug)]
pub(super) enum Entrance {
    /// Nothing to wait for: it is at work from now on.
    First(Flight),
    /// Its original is at work.
    Behind(Waiting),
}

/// An original at work, seen from its repeat.
#[derive(Debug)]
pub(super) struct Waiting(Entry);

impl Waiting {
    /// Waits for its answer; `None` if it was refused.
    ///
    /// # Errors
    ///
    /// If the original is another request under the same key.
    pub(super) async fn body(mut self, attempt: &Attempt) -> Result<Option<String>, Problem> {
        attempt.follows(self.0.chain)?;
        let found = self.0.body.wait_for(Option::is_some).await;
        Ok(found
            .ok()
            .and_then(|body| body.as_deref().map(str::to_owned)))
    }
}

/// An attempt at work; ends when dropped.
#[derive(Debug)]
pub(super) struct Flight {
    flights: Arc<Flights>,
    marks: Arc<Marks>,
    attempt: Attempt,
    body: watch::Sender<Option<Arc<str>>>,
    /// Whether the receipt that was there before answers no more.
    marked: bool,
}

impl Flights {
    /// Finds what an attempt has to wait for, or puts it to work.
    pub(super) fn enter(self: &Arc<Self>, attempt: &Attempt, marks: &Arc<Marks>) -> Entrance {
        let mut all = self.lock();
        if let Some(entry) = all.get(&attempt.fingerprint)
            // A difference under one key is told by whoever waits.
            && attempt.follows(entry.chain).unwrap_or(true)
        {
            return Entrance::Behind(Waiting(entry.clone()));
        }
        let (body, receiver) = watch::channel(None);
        all.insert(
            attempt.fingerprint,
            Entry {
                chain: attempt.chain,
                body: receiver,
            },
        );
        let marked = marks.take(attempt.fingerprint);
        let (flights, marks) = (self.clone(), marks.clone());
        Entrance::First(Flight {
            flights,
            marks,
            attempt: *attempt,
            body,
            marked,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    /// Tells those who wait that the request was accepted.
    pub(super) fn land(&self, body: &str) {
        self.body.send_replace(Some(body.into()));
    }

    /// Tells whether the receipt that was there before answers no more.
    pub(super) fn is_marked(&self) -> bool {
        self.marked
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let landed = self.body.borrow().is_some();
        let began = self.attempt.chain == (Chain::Retry { count: 0 });
        if !landed && (began || self.marked) {
            // Refused, but it came: an older receipt is of a chain that is over.
            self.marks.add(self.attempt.fingerprint);
        }
        let mut all = self.flights.lock();
        let own = |entry: &Entry| entry.body.same_channel(&self.body.subscribe());
        if all.get(&self.attempt.fingerprint).is_some_and(own) {
            all.remove(&self.attempt.fingerprint);
        }
    }
}
