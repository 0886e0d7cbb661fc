//! Requests that are at work now.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use outlast_protocol::{Micros, Problem};
use tokio::sync::watch;

use super::{
    attempt::{Attempt, Chain},
    marks::{Marks, Older},
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
    /// When it began.
    at: Micros,
    /// What is known of the receipts before it.
    older: Older,
    stage: Stage,
}

/// How far an attempt got.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// Nothing came of it.
    Nothing,
    /// It may have been accepted: the work began, and nobody knows how it ended.
    Begun,
}

impl Flights {
    /// Finds what an attempt has to wait for, or puts it to work.
    pub(super) fn enter(
        self: &Arc<Self>,
        attempt: &Attempt,
        marks: &Arc<Marks>,
        at: Micros,
    ) -> Entrance {
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
        let older = marks.take(attempt.fingerprint);
        Entrance::First(Flight {
            flights: self.clone(),
            marks: marks.clone(),
            attempt: *attempt,
            body,
            at,
            older,
            stage: Stage::Nothing,
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

    /// Notes that the work begins: from here on only its end tells whether it was accepted.
    pub(super) fn begin(&mut self) {
        self.stage = Stage::Begun;
    }

    /// Notes that the request was refused, for certain or for all that anybody knows.
    pub(super) fn refuse(&mut self, problem: &Problem) {
        if problem.code.status() < 500 {
            self.stage = Stage::Nothing;
        }
    }

    /// Returns what is known of the receipts before it.
    pub(super) fn older(&self) -> Older {
        self.older
    }

    /// Returns what is known of all receipts, now that this attempt was not accepted.
    fn left(&self) -> Older {
        let first = self.attempt.chain == (Chain::Retry { count: 0 });
        let older = if first { Older::Dead } else { self.older };
        match (older, self.stage) {
            (Older::Dead, Stage::Begun) => Older::Since(self.at),
            (older, Stage::Begun | Stage::Nothing) => older,
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.body.borrow().is_none() {
            match self.left() {
                Older::Good => {}
                Older::Since(at) => self.marks.floor(self.attempt.fingerprint, at),
                Older::Dead => self.marks.add(self.attempt.fingerprint),
            }
        }
        let mut all = self.flights.lock();
        let own = |entry: &Entry| entry.body.same_channel(&self.body.subscribe());
        if all.get(&self.attempt.fingerprint).is_some_and(own) {
            all.remove(&self.attempt.fingerprint);
        }
    }
}
